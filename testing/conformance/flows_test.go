package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The files in testdata/flows are whole exchanges, one step after the other:
//
//	api > /auth     what the requestor posts        api < 200   what it gets
//	ds >            what the directory server gets  ds <        what it answers
//	rreq >          what it posts as a result       rres <      what it gets
//	erro >          the Erro that the server posts to it
//
// with a JSON object below, up to an empty line. In what is sent, "@" names the legal
// message ("ARes BRW PA C") whose members the object adds to or replaces; null removes
// one. In what is expected, a member has to be there with its value, one that is null
// must not be there, and there may be others. A text that begins with $ is a variable. If
// it has no value yet, it takes that of the message expected, or a new id in what is sent.
// $version is the version; a file is replayed in each version that it names.

// A flowStep is one message on its way.
type flowStep struct {
	line  int
	leg   string // "api >"
	where string // path or status
	body  object
}

// A script is a file.
type script struct {
	versions []string
	steps    []flowStep
}

func readScript(text string) (script, error) {
	s := script{versions: allVersions}
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		if list, ok := strings.CutPrefix(line, "versions: "); ok {
			s.versions = strings.Fields(list)
			continue
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		who, rest, _ := strings.Cut(line, " ")
		way, where, _ := strings.Cut(rest, " ")
		step := flowStep{line: i + 1, leg: who + " " + way, where: where}
		switch step.leg {
		case "api >", "api <", "ds >", "ds <", "rreq >", "rres <", "erro >":
		default:
			return s, fmt.Errorf("line %d: no such step: %s", i+1, line)
		}
		var body []string
		for i+1 < len(lines) && strings.TrimSpace(lines[i+1]) != "" {
			i++
			body = append(body, lines[i])
		}
		if len(body) > 0 {
			if step.body = read([]byte(strings.Join(body, "\n"))); step.body == nil {
				return s, fmt.Errorf("line %d: no JSON object", step.line)
			}
		}
		s.steps = append(s.steps, step)
	}
	return s, nil
}

// A replay is a script at work in one version.
type replay struct {
	t       *testing.T
	l       *lab
	d       *ds
	version string
	vars    map[string]string
	got     *answer  // the latest answer of the server
	areq    *request // the latest AReq, nil if the latest call led to none
}

// message is what a step sends.
func (r *replay) message(s flowStep) []byte {
	o := object{}
	if name := s.body.text("@"); name != "" {
		words := strings.Fields(name)
		o = sample(words[0], r.version, words[1:]...)
		if words[0] == "AReq" {
			o["deviceChannel"], o["messageCategory"] = channelCodes[words[1]], categoryCodes[words[2]]
		}
	}
	for name, v := range s.body {
		switch {
		case name == "@":
		case v == nil:
			delete(o, name)
		default:
			o[name] = v
		}
	}
	return encode(r.fillVariables(o))
}

// fillVariables puts values in place of variables.
func (r *replay) fillVariables(v any) any {
	switch v := v.(type) {
	case object:
		for name, item := range v {
			v[name] = r.fillVariables(item)
		}
	case []any:
		for i, item := range v {
			v[i] = r.fillVariables(item)
		}
	case []object:
		for _, item := range v {
			r.fillVariables(item)
		}
	case string:
		if name, ok := strings.CutPrefix(v, "$"); ok {
			if r.vars[name] == "" {
				r.vars[name] = newID()
			}
			return r.vars[name]
		}
	}
	return v
}

// wantMessage holds what came against a step.
func (r *replay) wantMessage(s flowStep, got object) {
	r.t.Helper()
	if problem := r.difference(s.body, got, ""); problem != "" {
		r.t.Fatalf("line %d, %s: %s in %s", s.line, s.leg, problem, encode(got))
	}
}

func (r *replay) difference(want, got any, at string) string {
	switch want := want.(type) {
	case object:
		o, ok := got.(object)
		if !ok {
			return at + " is no object"
		}
		for name, v := range want {
			value, there := o[name]
			switch {
			case v == nil && there:
				return at + name + " is there"
			case v == nil:
			case !there:
				return at + name + " is missing"
			default:
				if problem := r.difference(v, value, at+name+"."); problem != "" {
					return problem
				}
			}
		}
		return ""
	case string:
		text, ok := got.(string)
		if name, isVar := strings.CutPrefix(want, "$"); isVar && ok {
			if r.vars[name] == "" {
				r.vars[name] = text
			}
			want = r.vars[name]
		}
		if !ok || text != want {
			return fmt.Sprintf("%s is %v, not %s,", strings.TrimSuffix(at, "."), got, want)
		}
		return ""
	}
	if string(encode(want)) != string(encode(got)) {
		return fmt.Sprintf("%s is %s, not %s,", strings.TrimSuffix(at, "."), encode(got), encode(want))
	}
	return ""
}

// run does the steps. Those of the directory server that follow a request of the requestor
// happen while the requestor waits for its answer.
func (r *replay) run(steps []flowStep) {
	for i := 0; i < len(steps); i++ {
		s := steps[i]
		switch s.leg {
		case "api >":
			body := r.message(s)
			var meanwhile []flowStep
			for i+1 < len(steps) && strings.HasPrefix(steps[i+1].leg, "ds ") {
				i++
				meanwhile = append(meanwhile, steps[i])
			}
			r.call(s, body, meanwhile)
		case "api <":
			if status := fmt.Sprint(r.got.status); status != s.where {
				r.t.Fatalf("line %d: status %s, want %s: %s", s.line, status, s.where, r.got.body)
			}
			r.wantMessage(s, r.got.o)
		case "rreq >":
			got, err := r.d.post(r.l.results, r.message(s))
			if err != nil {
				r.t.Fatalf("line %d: %v", s.line, err)
			}
			r.got = got
		case "rres <":
			if r.got.status != 200 {
				r.t.Fatalf("line %d: status %d", s.line, r.got.status)
			}
			r.wantMessage(s, r.got.o)
		case "erro >":
			if !waitUntil(stepTimeout, func() bool { return len(r.d.requests("Erro", r.vars["id"])) > 0 }) {
				r.t.Fatalf("line %d: no Erro came", s.line)
			}
			r.wantMessage(s, r.d.requests("Erro", r.vars["id"])[0].o)
		default:
			r.t.Fatalf("line %d: %s without a request before it", s.line, s.leg)
		}
	}
}

// call posts to the API; the directory server takes part in it as the steps say.
func (r *replay) call(s flowStep, body []byte, steps []flowStep) {
	id := read(body).text("threeDSServerTransID")
	r.areq = nil
	if len(steps) > 0 {
		r.d.script(id, func(q *request) reply {
			if q.typ != "AReq" {
				return reply{}
			}
			r.areq = q
			var say reply
			for _, s := range steps {
				if s.leg == "ds <" {
					say.body = r.message(s)
					say.silent = s.where == "nothing"
				}
			}
			return say
		})
	}
	got, err := r.l.callAPI(s.where, r.l.key, body)
	if err != nil {
		r.t.Fatalf("line %d: %v", s.line, err)
	}
	r.got = got
	for _, s := range steps {
		if s.leg == "ds >" {
			if r.areq == nil {
				r.t.Fatalf("line %d: nothing came: %d %s", s.line, got.status, got.body)
			}
			r.wantMessage(s, r.areq.o)
		}
	}
}

// TestFlows replays whole exchanges.
func TestFlows(t *testing.T) {
	files, err := filepath.Glob("testdata/flows/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no flows", err)
	}
	l, err := newLab(build(t).server, plan{directories: []directory{{scheme: "visa"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s, err := readScript(string(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, v := range s.versions {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+"/"+v, func(t *testing.T) {
				r := &replay{t: t, l: l, d: l.ds["visa"], version: v, vars: map[string]string{"version": v}}
				r.run(s.steps)
			})
		}
	}
}
