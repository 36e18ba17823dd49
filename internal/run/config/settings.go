package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/operate/webhook"
)

// A Source says where a value of the configuration comes from.
type Source string

// The sources of values. What is in the store is changed there, and not in the file.
const (
	FromFile    Source = "file"
	FromStore   Source = "store"
	FromDefault Source = "default"
)

// A Setting is one key of a configuration with the value in force. It never holds a secret: of those it has the file.
type Setting struct {
	// Key is the path of the key. Items of lists have their name in it, such as directories[visa].areq_url.
	Key string `json:"key"`
	// Value is the value as the file would write it. It is empty for a key that has none, and for a secret.
	Value string `json:"value,omitempty"`
	// SecretFile is the file of a secret that is set.
	SecretFile string `json:"secretFile,omitempty"`
	Source     Source `json:"source"`
	// Line is where in the file the value is, 0 if it is not there.
	Line int `json:"line,omitempty"`

	section string // the item of a list, or the section that may be absent, that the key is in; "" for none
	file    string // the file that the value names; "" for none
}

// shown returns the value as people compare it.
func (s *Setting) shown() string { return cmp.Or(s.Value, s.SecretFile) }

// Settings returns every key of the configuration, in the order of the reference page. A section that may be absent,
// and is, has one setting without a value.
func (c *Config) Settings() []Setting {
	l := settingList{config: c}
	l.addStruct(reflect.ValueOf(c).Elem(), place{})
	return l.all
}

// A settingList collects the settings of a configuration.
type settingList struct {
	config *Config
	all    []Setting
}

// A place is where in a configuration a value is.
type place struct {
	key     string // with the names of items
	path    string // with the numbers of items, as in faults
	section string
	file    string // the tag of the field
}

// in returns the place of a key in a section at p.
func (p place) in(key string) place {
	return place{key: join(p.key, key), path: join(p.path, key), section: p.section}
}

// addStruct adds the keys of a section.
func (l *settingList) addStruct(v reflect.Value, at place) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		key := field.Tag.Get("yaml")
		if key == "" {
			continue
		}
		inner := at.in(key)
		inner.file = field.Tag.Get("file")
		if key == "journal" && at.key == "" {
			if !l.config.HasJournal() {
				l.add(inner, "off")
				continue
			}
			inner.section = key
		}
		l.addValue(v.Field(i), inner)
	}
}

// addValue adds the settings of a value.
func (l *settingList) addValue(v reflect.Value, at place) {
	if text, ok := l.textOf(v.Interface(), at); ok {
		if publicFile(v.Interface()) != "" {
			at.file = "public"
		}
		l.add(at, text)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			l.add(at, "")
			return
		}
		at.section = at.key
		l.addValue(v.Elem(), at)
	case reflect.Struct:
		if pair, ok := v.Interface().(KeyPair); ok && pair.IsManaged {
			l.add(at, managed)
			l.all[len(l.all)-1].Source = FromStore
			return
		}
		l.addStruct(v, at)
	case reflect.Slice:
		l.addItems(v, at)
	case reflect.Map:
		if v.Len() == 0 {
			l.add(at, "")
		}
		names := v.MapKeys()
		slices.SortFunc(names, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, name := range names {
			l.addValue(v.MapIndex(name), at.in(name.String()))
		}
	default:
		l.add(at, fmt.Sprint(v.Interface()))
	}
}

// addItems adds the settings of the sections in a list. The order of directories is a setting of its own, for it is
// that of preference.
func (l *settingList) addItems(v reflect.Value, at place) {
	names := make([]string, v.Len())
	for i := range names {
		names[i] = itemName(v.Index(i).Interface(), i)
	}
	if len(names) == 0 {
		l.add(at, "")
	} else if at.key == "directories" {
		l.add(at, strings.Join(names, ", "))
	}
	for i, name := range names {
		item := place{key: fmt.Sprintf("%s[%s]", at.key, name), path: fmt.Sprintf("%s[%d]", at.path, i)}
		item.section = item.key
		l.addValue(v.Index(i), item)
	}
}

// itemName is what people call an item of a list, its number if it has no name.
func itemName(item any, i int) string {
	switch item := item.(type) {
	case Merchant:
		return item.Name
	case Directory:
		return item.Scheme
	case V1Directory:
		return item.Scheme
	}
	return strconv.Itoa(i)
}

// add adds a setting.
func (l *settingList) add(at place, text string) {
	s := Setting{Key: at.key, Value: text, Source: FromDefault, section: at.section, Line: l.config.lines[at.path]}
	if s.Line > 0 {
		s.Source = FromFile
	}
	if at.file != "" {
		s.file = text
	}
	if at.file == "secret" {
		s.Value, s.SecretFile = "", text
	}
	if text == "" {
		s.Value = l.config.unsetText(at.path)
	}
	l.all = append(l.all, s)
}

// textOf returns a value that is a single one, or a list of such, as the file would write it.
func (l *settingList) textOf(value any, at place) (text string, ok bool) {
	switch value := value.(type) {
	case time.Duration:
		if value == 0 && l.config.unsetText(at.path) != "" {
			return "", true
		}
		return durationText(value, strings.HasPrefix(at.key, "journal.")), true
	case []time.Duration:
		return listText(value, func(d time.Duration) string { return durationText(d, false) }), true
	case []string:
		return listText(value, func(s string) string { return s }), true
	case []api.EventType:
		return listText(value, func(e api.EventType) string { return string(e) }), true
	case int:
		if value == 0 { // no key of the configuration has this value
			return "", true
		}
		return strconv.Itoa(value), true
	case Rate:
		return rateText(value), true
	case StoreURL:
		if value.Dir != "" {
			return "file:" + value.Dir, true
		}
		return value.Postgres, true
	case ProxyURL:
		return value.text(), true
	case SigningSecret:
		return value.File, true
	case AgentSecret:
		return value.File, true
	case CAFile, CRLFile, RulesFile, RootFile, LogoFile:
		return publicFile(value), true
	}
	return "", false
}

// publicFile returns the file that a value names whose content is no secret, "" for any other value.
func publicFile(value any) string {
	switch value := value.(type) {
	case CAFile:
		return value.File
	case CRLFile:
		return value.File
	case RulesFile:
		return value.File
	case RootFile:
		return value.File
	case LogoFile:
		return value.File
	}
	return ""
}

// unsetText says what holds where a key is not set, if something does.
func (c *Config) unsetText(path string) string {
	switch {
	case path == "limits.per_merchant":
		return strconv.Itoa(max(c.Limits.PerDirectory/2, 1))
	case path == "webhooks.retry":
		return listText(webhook.DefaultRetry(), func(d time.Duration) string { return durationText(d, false) })
	case path == "journal.url":
		return "as store.url"
	case strings.HasPrefix(path, "directories[") && strings.HasSuffix(path, "].timeout"):
		return durationText(c.Timeouts.Authentication, false)
	case strings.HasPrefix(path, "directories[") && strings.HasSuffix(path, "].min_refresh"):
		return "1h, and 12h between full loads of 2.3.1"
	}
	return ""
}

func listText[T any](all []T, text func(T) string) string {
	texts := make([]string, len(all))
	for i, v := range all {
		texts[i] = text(v)
	}
	return strings.Join(texts, ", ")
}

// durationText is a duration without units that are zero, or in days. A value of 0 is off where days are counted, and
// none else.
func durationText(d time.Duration, inDays bool) string {
	switch {
	case d == 0 && inDays:
		return "off"
	case d == 0:
		return "0s"
	case inDays:
		return strconv.Itoa(int(d/(24*time.Hour))) + "d"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func rateText(r Rate) string {
	unit := map[time.Duration]string{time.Second: "s", time.Minute: "m", time.Hour: "h"}[r.Per]
	return fmt.Sprintf("%d/%s", r.Count, unit)
}

// text is the URL as the file writes it.
func (u ProxyURL) text() string {
	switch {
	case u.Direct:
		return "direct"
	case u.TLS:
		return "https://" + u.Address
	}
	return "http://" + u.Address
}

// A Change is a key whose value differs between two configurations.
type Change struct {
	Key string `json:"key"`
	// Before and After are the values, or the files of secrets. A section that is added has no Before, and one that is
	// removed no After; their keys are no changes of their own.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// NeedsRestart says that a running server refuses the new configuration because of this key.
	NeedsRestart bool `json:"needsRestart"`
	// Line is where in the new file the value is, 0 if it is not there.
	Line int `json:"line,omitempty"`
}

// Present is the value that a [Change] has for a section that is there.
const Present = "(there)"

// Diff returns what a reload from c to next would change: what is in next, in the order of the reference page, and then
// what is only in c.
func (c *Config) Diff(next *Config) []Change {
	before, after := c.Settings(), next.Settings()
	was, is := byKey(before), byKey(after)
	keys := make([]string, 0, len(after))
	for i := range after {
		keys = append(keys, after[i].Key)
	}
	for i := range before {
		if is[before[i].Key] == nil {
			keys = append(keys, before[i].Key)
		}
	}
	sectionsBefore, sectionsAfter := sectionsOf(before), sectionsOf(after)
	changes := []Change{} // and not null in JSON
	seen := map[string]bool{}
	for _, key := range keys {
		ch := Change{Key: key}
		if s := was[key]; s != nil {
			ch.Before = s.shown()
		}
		if s := is[key]; s != nil {
			ch.After, ch.Line = s.shown(), s.Line
		}
		if ch.Before == ch.After {
			continue
		}
		if section := outermost(key, sectionsAfter, sectionsBefore); section != "" {
			ch = Change{Key: section, After: Present, Line: next.lines[section]}
			if s := was[section]; s != nil { // a word in the place of the section, such as off
				ch.Before = s.shown()
			}
		} else if section := outermost(key, sectionsBefore, sectionsAfter); section != "" {
			ch = Change{Key: section, Before: Present}
			if s := is[section]; s != nil {
				ch.After, ch.Line = s.shown(), s.Line
			}
		}
		if !seen[ch.Key] {
			seen[ch.Key] = true
			changes = append(changes, ch)
		}
	}
	return markRestarts(changes, next.fixedKeys(c))
}

func byKey(all []Setting) map[string]*Setting {
	found := make(map[string]*Setting, len(all))
	for i := range all {
		found[all[i].Key] = &all[i]
	}
	return found
}

// sectionsOf returns the sections that may be absent, and are there.
func sectionsOf(all []Setting) map[string]bool {
	found := map[string]bool{}
	for i := range all {
		found[all[i].section] = true
	}
	delete(found, "")
	return found
}

// outermost returns the largest section around key, or that is key, which is there and not in other; "" for none.
func outermost(key string, there, other map[string]bool) string {
	found := ""
	for section := range there {
		isAround := section == key || strings.HasPrefix(key, section+".")
		if isAround && !other[section] && (found == "" || len(section) < len(found)) {
			found = section
		}
	}
	return found
}

// markRestarts marks the changes that a running process refuses.
func markRestarts(changes []Change, fixed []fixedKey) []Change {
	for _, f := range fixed {
		if f.same {
			continue
		}
		isMarked := false
		for i := range changes {
			key := changes[i].Key
			isInside := key == f.path || strings.HasPrefix(key, f.path+".") && key != "tracing.sampling_fraction"
			if isInside || strings.HasPrefix(f.path, key+".") {
				changes[i].NeedsRestart, isMarked = true, true
			}
		}
		if !isMarked {
			changes = append(changes, Change{Key: f.path, NeedsRestart: true})
		}
	}
	return changes
}

// ChangedKeys returns the keys whose values differ in next, or that name a file whose content differs in the files that
// next was read from.
func (c *Config) ChangedKeys(next *Config, files, nextFiles Files) []string {
	keys := []string{} // and not null in the log
	for _, ch := range c.Diff(next) {
		keys = append(keys, ch.Key)
	}
	for _, s := range next.Settings() {
		was, wasRead := files[s.file]
		is, isRead := nextFiles[s.file]
		if wasRead && isRead && was != is && !slices.Contains(keys, s.Key) {
			keys = append(keys, s.Key)
		}
	}
	return keys
}
