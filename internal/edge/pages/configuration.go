package pages

import (
	"cmp"
	"path/filepath"
	"strconv"

	"github.com/openthreeds/threeds/internal/edge/admin"
)

// A configurationView is the data of the page of the configuration.
type configurationView struct {
	*admin.Configuration
	Written  []settingRow // of the file and of the store
	Defaults []settingRow // of keys that nobody has set
}

// A settingRow is a setting as the page shows it.
type settingRow struct {
	admin.Setting
	file string
}

// Shown returns the value, or where a secret is.
func (r *settingRow) Shown() string {
	if r.SecretFile != "" {
		return "set, in " + r.SecretFile
	}
	return cmp.Or(r.Value, "–")
}

// From says where the value comes from.
func (r *settingRow) From() string {
	if r.Line > 0 {
		return r.file + ":" + strconv.Itoa(r.Line)
	}
	return r.Source
}

func configurationPage(h *Handler, v *visit) (result, error) {
	c, err := h.Admin.ShowConfiguration(v.Context(), v.session.Actor)
	if err != nil {
		return result{}, err
	}
	view := configurationView{Configuration: c}
	file := filepath.Base(c.File)
	for _, s := range c.Settings {
		if s.Source == "default" {
			view.Defaults = append(view.Defaults, settingRow{s, file})
		} else {
			view.Written = append(view.Written, settingRow{s, file})
		}
	}
	return result{template: "configuration", title: "Configuration", data: view}, nil
}
