package sandbox

import (
	"embed"
	"html/template"
)

//go:embed pages/*.html
var pageFiles embed.FS

//go:embed pages/style.css
var styleText string

//go:embed pages/page.js
var scriptText string

var pages = template.Must(template.New("pages").Funcs(trusted).ParseFS(pageFiles, "pages/*.html"))
