package rig

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"

	"github.com/openthreeds/threeds/internal/base/waittest"
)

// Readiness is what /readyz says, without what the node runs with.
func (s *Site) Readiness() string {
	res, err := http.Get(s.ConsoleURL + "/readyz")
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	data, _ := io.ReadAll(res.Body)
	said, _, isKnown := strings.Cut(strings.TrimSpace(string(data)), `,"config":`)
	if isKnown {
		said += "}"
	}
	return said
}

// ReadyStatus is the HTTP status of /readyz, and what it says of one problem.
func (s *Site) ReadyStatus(problem string) (code int, status, text string) {
	s.T.Helper()
	res, err := http.Get(s.ConsoleURL + "/readyz")
	Must(s.T, err)
	defer res.Body.Close()
	var got struct {
		Status   string
		Problems map[string]string
	}
	Must(s.T, json.NewDecoder(res.Body).Decode(&got))
	return res.StatusCode, got.Status, got.Problems[problem]
}

// Problems are what /readyz says is not well, and its status.
func (s *Site) Problems() (status string, problems map[string]string) {
	var got struct {
		Status   string
		Problems map[string]string
	}
	_ = json.Unmarshal([]byte(s.Readiness()), &got)
	return got.Status, got.Problems
}

// WantProblem waits until /readyz names a part and says that the node is degraded.
func (s *Site) WantProblem(part, text string) {
	s.T.Helper()
	waittest.Until(s.T, "problem "+part, func() bool {
		status, problems := s.Problems()
		return status == "degraded" && strings.Contains(problems[part], text)
	})
	if got := s.Metric(`threeds_degraded{what="` + part + `"}`); got != 1 {
		s.T.Errorf("threeds_degraded of %s is %v", part, got)
	}
	if !strings.Contains(s.Log.String(), `"level":"ERROR","msg":"a part of the server is degraded","what":"`+part+`"`) {
		s.T.Errorf("the log has no error about %s:\n%s", part, s.Log.String())
	}
}

// WantAuthentication checks that an /auth of EnrolledPAN is answered.
func (s *Site) WantAuthentication() {
	s.T.Helper()
	if code, got := s.Post("/auth", s.Request("2.2.0")); code != 200 || got.Text("transStatus") != "Y" {
		s.T.Errorf("/auth: %d %v", code, got)
	}
}

// A NodeIdentity is what /readyz says of what a node runs with.
type NodeIdentity struct {
	Config  string
	KeyFile struct{ Current, Previous, Next string }
	Build   string

	JournalKeyFile string
}

// Identity is what a node runs with, by /readyz; the metrics must say the same.
func (s *Site) Identity() (got NodeIdentity) {
	s.T.Helper()
	res, err := http.Get(s.ConsoleURL + "/readyz")
	Must(s.T, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	Must(s.T, err)
	Must(s.T, json.Unmarshal(data, &got))
	text := s.Exposed()
	for _, want := range []string{
		fmt.Sprintf("threeds_config_info{hash=%q} 1\n", got.Config),
		fmt.Sprintf("threeds_key_file_info{current=%q,next=%q,previous=%q} 1\n", got.KeyFile.Current, got.KeyFile.Next, got.KeyFile.Previous),
		fmt.Sprintf("threeds_build_info{version=%q} 1\n", got.Build),
		fmt.Sprintf("threeds_journal_key_file_info{id=%q} 1\n", got.JournalKeyFile),
	} {
		if got.JournalKeyFile == "" && strings.Contains(want, "_journal") {
			continue // its keys could not be read
		}
		if !strings.Contains(text, want) {
			s.T.Errorf("/metrics lacks %q", want)
		}
	}
	if got.Config == "" || got.KeyFile.Current == "" || got.Build == "" {
		s.T.Errorf("/readyz says %+v of what the node runs with", got)
	}
	return got
}

// Metrics are the values that the console exposes, by name and labels.
func (s *Site) Metrics() map[string]float64 {
	got := make(map[string]float64)
	for lines := bufio.NewScanner(strings.NewReader(s.Exposed())); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			got[name] = n
		}
	}
	return got
}

// Metric reads one series from the console; -1: there is none.
func (s *Site) Metric(name string) float64 {
	pace(s.ConsoleURL)
	res, err := http.Get(s.ConsoleURL + "/metrics")
	if err != nil {
		return -1
	}
	defer res.Body.Close()
	data, _ := io.ReadAll(res.Body)
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			got, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return got
		}
	}
	return -1
}

// Reload sends the signal and waits until the process has taken it.
func (s *Site) Reload(p *Process, metric string) {
	s.T.Helper()
	before := s.Metric(metric)
	if err := p.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		s.T.Fatal(err)
	}
	waittest.Until(s.T, metric+" to rise; the log:\n"+p.Log.String(), func() bool { return s.Metric(metric) > before })
}
