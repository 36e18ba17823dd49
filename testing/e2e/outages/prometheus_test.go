package outages

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/porttest"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

const (
	// usualInterval is how often a Prometheus scrapes installations, and evaluates their rules.
	usualInterval = 15 * time.Second

	// usualLookback is how long a sample counts after which no other came.
	usualLookback = 5 * time.Minute
)

// A prometheus is a Prometheus in a process of its own, with the rules of deploy/prometheus.
type prometheus struct {
	t   *testing.T
	url string
	// speed is how many times faster its time passes: every range and every "for" of the rules is divided by it, and it
	// scrapes and evaluates as many times more often.
	speed time.Duration
}

// in returns the same Prometheus for a subtest.
func (p *prometheus) in(t *testing.T) *prometheus { return &prometheus{t, p.url, p.speed} }

// interval returns how often it scrapes and evaluates.
func (p *prometheus) interval() time.Duration { return usualInterval / p.speed }

// startPrometheus builds Prometheus and starts it until the test ends. It scrapes the consoles at the addresses of each
// job.
func startPrometheus(t *testing.T, speed int, targets map[string]string) *prometheus {
	t.Helper()
	p := &prometheus{t, "http://" + porttest.Address(t), time.Duration(speed)}
	dir := t.TempDir()
	rules, err := filepath.Abs(filepath.Join(rig.DeployDir, "prometheus", "threeds.rules.yaml"))
	rig.Must(t, err)
	rig.WriteFile(t, filepath.Join(dir, "threeds.rules.yaml"), runGo(t, "run", ".", strconv.Itoa(speed), rules))
	runGo(t, "build", "-tags=remove_all_sd", "-ldflags=-s -w", "-o", filepath.Join(dir, "prometheus"), "github.com/prometheus/prometheus/cmd/prometheus")
	config := fmt.Sprintf("global: {scrape_interval: %s, scrape_timeout: %[1]s, evaluation_interval: %[1]s}\n"+
		"rule_files: [threeds.rules.yaml]\nscrape_configs:\n", p.interval())
	for job, target := range targets {
		config += fmt.Sprintf("  - job_name: %s\n    static_configs: [{targets: [%q]}]\n", job, target)
	}
	file := filepath.Join(dir, "prometheus.yml")
	rig.WriteFile(t, file, []byte(config))
	process := &rig.Process{T: t, Cmd: exec.Command(filepath.Join(dir, "prometheus"), "--config.file="+file,
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+rig.HostOf(t, p.url),
		"--query.lookback-delta="+(usualLookback/p.speed).String())}
	process.Start()
	waittest.Until(t, "the first scrape of each job", rig.Unhurried(func() bool {
		select {
		case <-process.Exited:
			t.Fatalf("prometheus has ended:\n%s", process.Log)
		default:
		}
		if res, err := http.Get(p.url + "/-/ready"); err != nil {
			return false
		} else if res.Body.Close(); res.StatusCode != http.StatusOK {
			return false
		}
		return len(p.query("threeds_ready == 1")) == len(targets)
	}))
	return p
}

// runGo runs the go command in the module of Prometheus, and returns what it prints.
func runGo(t *testing.T, args ...string) []byte {
	t.Helper()
	var errs strings.Builder
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = filepath.Join(rig.Root, "testing", "alerts", "prometheus"), append(os.Environ(), "GOWORK=off")
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %q: %v\n%s", args, err, &errs)
	}
	return out
}

// get reads data from the API.
func (p *prometheus) get(path string, query url.Values, data any) {
	p.t.Helper()
	res, err := http.Get(p.url + "/api/v1/" + path + "?" + query.Encode())
	rig.Must(p.t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	rig.Must(p.t, err)
	if res.StatusCode != http.StatusOK {
		p.t.Fatalf("%s: %d %s", path, res.StatusCode, body)
	}
	got := struct{ Data any }{data}
	rig.Must(p.t, json.Unmarshal(body, &got))
}

// A series is one of the answer to a query, with what it has in the place of a sample.
type series struct {
	Metric map[string]string
	Values [][2]any // times in seconds, and values
}

// query returns the series of an expression at this moment.
func (p *prometheus) query(expr string) []series {
	p.t.Helper()
	var got struct{ Result []series }
	p.get("query", url.Values{"query": {expr}}, &got)
	return got.Result
}

// An alert is one that is pending or fires at this moment.
type alert struct {
	Labels, Annotations map[string]string
	State               string
}

// alerts returns the alerts of a job that are pending or fire, by their names.
func (p *prometheus) alerts(job string) map[string]alert {
	p.t.Helper()
	var got struct{ Alerts []alert }
	p.get("alerts", nil, &got)
	all := map[string]alert{}
	for _, a := range got.Alerts {
		if a.Labels["job"] == job {
			all[a.Labels["alertname"]] = a
		}
	}
	return all
}

// held returns how long the condition of an alert has to hold before it fires.
func (p *prometheus) held(name string) time.Duration {
	p.t.Helper()
	var got struct {
		Groups []struct {
			Rules []struct {
				Name     string
				Duration float64
			}
		}
	}
	p.get("rules", url.Values{"type": {"alert"}}, &got)
	for _, g := range got.Groups {
		for _, r := range g.Rules {
			if r.Name == name {
				return time.Duration(r.Duration * float64(time.Second))
			}
		}
	}
	p.t.Fatalf("there is no alert %s", name)
	return 0
}

// A firing is when an alert was pending and when it fired: at evaluations of its rule. The times are zero if it was not.
type firing struct{ pending, firing, last time.Time }

// history returns what alerts did since a time, by job and name. What each did first counts, and of all when it fired
// last.
func (p *prometheus) history(since time.Time) map[string]map[string]firing {
	p.t.Helper()
	all := map[string]map[string]firing{}
	span := time.Since(since).Truncate(time.Millisecond)
	for _, s := range p.query(fmt.Sprintf("ALERTS[%dms]", span.Milliseconds())) {
		times := make([]time.Time, 0, len(s.Values))
		for _, v := range s.Values {
			seconds, isNumber := v[0].(float64)
			if !isNumber {
				p.t.Fatalf("the time of a sample is %v", v[0])
			}
			times = append(times, time.UnixMilli(int64(seconds*1000)))
		}
		job, name := s.Metric["job"], s.Metric["alertname"]
		if all[job] == nil {
			all[job] = map[string]firing{}
		}
		f := all[job][name]
		if s.Metric["alertstate"] == "pending" {
			f.pending = earlier(f.pending, times[0])
		} else {
			f.firing = earlier(f.firing, times[0])
			f.last = slices.MaxFunc([]time.Time{f.last, times[len(times)-1]}, time.Time.Compare)
		}
		all[job][name] = f
	}
	return all
}

// earlier returns the earlier one of two times that are not zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return cmp.Or(b, a)
	}
	return a
}
