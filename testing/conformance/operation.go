package conformance

import (
	"regexp"
	"strings"
	"time"
)

// oreq posts an operation message as the directory server of Visa.
func (t *T) oreq(o object, edits ...edit) *answer {
	l := t.sharedLab()
	body := o.bytes(edits...)
	t.note("directory > server", body)
	got, err := l.ds["visa"].post(l.results, body)
	if err != nil {
		t.Fatalf("results: %v", err)
	}
	t.noteAnswer("server > directory", got)
	return got
}

// wantEmptyAnswer wants the answer to a message to have status 200 and no body.
func (t *T) wantEmptyAnswer(message string, got *answer) {
	if got.status != 200 || len(got.body) != 0 {
		t.Errorf("the answer to %s: %d %s, want 200 and no body", message, got.status, got.body)
	}
}

// wantOpStatus wants an ORes of that opStatus.
func (t *T) wantOpStatus(got *answer, status string) {
	if got.status != 200 || got.o.text("messageType") != "ORes" || got.o.text("opStatus") != status {
		t.Errorf("%d %s, want an ORes with %s", got.status, got.body, status)
	}
}

// operationChecks is the operation messages.
var operationChecks = []check{
	{id: "OP-01", do: func(t *T) { t.wantOpStatus(t.oreq(oreqs(1)[0]), "01") }},
	{id: "OP-02", do: func(t *T) {
		all := oreqs(3)
		t.wantEmptyAnswer("an OReq", t.oreq(all[0]))
		t.wantEmptyAnswer("an OReq", t.oreq(all[1]))
		t.wantOpStatus(t.oreq(all[2]), "01")
	}},
	{id: "OP-03", do: func(t *T) {
		all := oreqs(3)
		t.wantEmptyAnswer("an OReq", t.oreq(all[0]))
		t.wantOpStatus(t.oreq(all[2]), "02")
	}},
	{id: "OP-04", do: func(t *T) {
		start := time.Now()
		t.wantOpStatus(t.oreq(oreqs(1)[0]), "01")
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("the ORes took %v, want 3 s at the most", took)
		}
	}},
	{id: "OP-05", do: func(t *T) {
		l := t.ownLab(plan{directories: []directory{{scheme: "visa"}}})
		all := oreqs(3)
		if _, err := l.ds["visa"].post(l.results, all[0].bytes()); err != nil {
			t.Fatalf("results: %v", err)
		}
		if !waitUntil(stepTimeout, func() bool { return len(l.ds["visa"].requests("Erro", "")) > 0 }) {
			t.Fatalf("no Erro came")
		}
		erro := l.ds["visa"].requests("Erro", "")[0].o
		if erro.text("errorCode") != "402" || erro.text("errorComponent") != "S" || erro.text("dsTransID") != all[0].text("dsTransID") {
			t.Errorf("the directory got %s, want Erro 402 of component S with the dsTransID of the OReq", encode(erro))
		}
	}},
	{id: "OP-06", do: func(t *T) {
		all := oreqs(2)
		t.wantEmptyAnswer("an OReq", t.oreq(all[0]))
		got := t.oreq(all[1], set("opSeverity", "x"))
		if got.status != 200 || got.o.text("errorCode") != "203" || got.o.text("errorDetail") != "opSeverity" ||
			got.o.text("errorMessageType") != "OReq" || got.o.text("dsTransID") != all[1].text("dsTransID") {
			t.Errorf("%d %s, want an Erro 203 that names opSeverity", got.status, got.body)
		}
	}},
	{id: "OP-07", do: func(t *T) {
		o := oreqs(1)[0]
		got := t.oreq(o)
		if got.header.Get("X-Request-ID") != o.text("dsTransID") || got.header.Get("X-Response-ID") != got.o.text("threeDSServerTransID") {
			t.Errorf("X-Request-ID %q and X-Response-ID %q, want %q and %q", got.header.Get("X-Request-ID"), got.header.Get("X-Response-ID"),
				o.text("dsTransID"), got.o.text("threeDSServerTransID"))
		}
	}},
	{id: "OP-08", do: func(t *T) { // each message becomes a warning, with what the directory server says in it
		for _, category := range []string{"01", "02", "03", "04", "05", "06"} {
			const word = `operations-canary <script> "quoted" \ ü`
			for n, o := range oreqs(2) {
				severity := "0" + string('2'+rune(n))
				t.oreq(o, set("opDescription", word), set("opCategory", category), set("opSeverity", severity))
				want := object{
					"level": "WARN", "scheme": "visa", "dsTransID": o["dsTransID"], "opDescription": word, "opCategory": category, "opSeverity": severity,
					"opExpDate": "20301231", "seqNum": o.at("opSeq.seqNum"), "seqTotal": "02",
				}
				var line object
				logged := func() bool {
					for text := range strings.Lines(t.sharedLab().log.String()) {
						if strings.Contains(text, "operations-canary") && strings.Contains(text, o.text("dsTransID")) {
							line = read([]byte(text))
						}
					}
					return line != nil
				}
				if !waitUntil(stepTimeout, logged) {
					t.Fatalf("no line of the log has the opDescription of an OReq of category %s", category)
				}
				for name := range want {
					if line.text(name) != want.text(name) {
						t.Errorf("category %s: the log has %s %q, want %q", category, name, line.text(name), want.text(name))
					}
				}
			}
		}
	}},
}

// wantCompleteErro wants an Erro with a code that names an element, or any.
func (t *T) wantCompleteErro(got *answer, code, element string) {
	if got.status != 200 || got.o.text("messageType") != "Erro" || got.o.text("errorCode") != code ||
		element != "" && got.o.text("errorDetail") != element {
		t.Errorf("%d %s, want an Erro %s that names %q", got.status, got.body, code, element)
	}
}

var canonicalUUID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// oresChecks are rows of other groups that are about OReq and ORes: MX-14 and TO-12.
var oresChecks = []check{
	{id: "MX-14", do: func(t *T) {
		o := oreqs(1)[0]
		got, again := t.oreq(o), t.oreq(o)
		for _, name := range []string{"dsTransID", "messageType", "messageVersion", "opStatus", "threeDSServerRefNumber", "threeDSServerTransID"} {
			if got.o.text(name) == "" {
				t.Errorf("%s is missing in %s", name, got.body)
			}
		}
		id := got.o.text("threeDSServerTransID")
		if len(got.o) != 6 || !canonicalUUID.MatchString(id) || id == again.o.text("threeDSServerTransID") {
			t.Errorf("ORes %s, then %s; want six members, and a new UUID each time", got.body, again.body)
		}
	}},
	{id: "TO-12", waits: true, do: func(t *T) {
		start := time.Now()
		t.wantOpStatus(t.oreq(oreqs(1)[0]), "01")
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("the ORes took %v, want 3 s at the most", took)
		}
	}},
}
