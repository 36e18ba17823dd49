package config

import (
	"bytes"
	"image"
	"image/png"
	"strings"
	"testing"
)

// TestD77LogoIsPNGOrInertSVG: nothing that could run is taken, whatever its name.
func TestD77LogoIsPNGOrInertSVG(t *testing.T) {
	t.Parallel()
	var drawn bytes.Buffer
	must(t, png.Encode(&drawn, image.NewGray(image.Rect(0, 0, 4, 4))))
	const open, end = `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">`, `</svg>`
	for _, tt := range []struct{ data, want string }{
		{drawn.String(), "image/png"},
		{open + `<path d="M0 0h8"/>` + end, "image/svg+xml"},
		{"<?xml version=\"1.0\"?>\n<!DOCTYPE svg>\n" + open + end, "image/svg+xml"},
		{open + strings.Repeat(" ", MaxLogo) + end, "larger than 64 KiB"},
		{open + `<script>go()</script>` + end, "script"},
		{open + `<g onclick="go()"/>` + end, "script"},
		{open + `<a xlink:href=" JavaScript:go()"/>` + end, "script"},
		{open + `<foreignObject/>` + end, "script"},
		{`<!DOCTYPE svg [<!ENTITY x "y">]>` + open + end, "declarations of its own"},
		{open, "neither a PNG nor an SVG"},
		{`<html/>`, "neither a PNG nor an SVG"},
		{"", "neither a PNG nor an SVG"},
		{"\xff\xd8\xff\xe0 JFIF", "neither a PNG nor an SVG"},
	} {
		got, err := CheckLogo([]byte(tt.data))
		if err != nil {
			got = err.Error()
		}
		if got != tt.want && (err == nil || !strings.Contains(got, tt.want)) {
			t.Errorf("CheckLogo(%.60q) = %q, want %q", tt.data, got, tt.want)
		}
	}
}
