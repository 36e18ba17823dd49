package page

import (
	"bytes"
	"html/template"
)

// An SDK is the page for an SDK that shows HTML. Its form goes to the address that the specification has for that, and
// the SDK returns the query. EMV 3DS 2.2.0, section 4.2.5.
type SDK struct {
	What, Note string
	UI         string // of acsUiType
	Pass, Fail string // the values of a choice
	Outside    bool   // the cardholder confirms in the app of the bank
}

// HTML returns the page.
func (p SDK) HTML() []byte {
	var b bytes.Buffer
	if err := sdkPages.Execute(&b, p); err != nil {
		panic("sandbox: writing a page: " + err.Error()) // of strings into memory
	}
	return b.Bytes()
}

var sdkPages = template.Must(template.New("sdk").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <title>Confirm it is you</title>
</head>
<body>
  <h1>Confirm it is you</h1>
  <p>{{.What}}</p>
  {{with .Note}}<p role="alert">{{.}}</p>{{end}}
  <form action="HTTPS://EMV3DS/challenge" method="get">
    {{if or (eq .UI "02") (eq .UI "03")}}
      {{$kind := "radio"}}{{if eq .UI "03"}}{{$kind = "checkbox"}}{{end}}
      <label><input type="{{$kind}}" name="entry" value="{{.Pass}}"> It is me</label>
      <label><input type="{{$kind}}" name="entry" value="{{.Fail}}"> It is not me</label>
    {{else if not .Outside}}
      <label>Code <input name="entry" inputmode="numeric" autocomplete="one-time-code"></label>
    {{end}}
    <button name="action" value="confirm">{{if .Outside}}I have confirmed it{{else}}Confirm{{end}}</button>
    <button name="action" value="cancel">Cancel</button>
  </form>
</body>
</html>
`))
