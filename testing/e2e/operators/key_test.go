package operators

import (
	"database/sql"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestKeyForNobody: a key that could not be told to anybody, for the reader of the pipe
// has gone, does not stay in the store.
func TestKeyForNobody(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := &rig.Site{World: &rig.World{T: t}, Directory: rig.NewWire(t, ca), Authority: ca, ConfigFile: filepath.Join(t.TempDir(), "threeds.yaml")}
	rig.WriteFile(t, s.ConfigFile, []byte(s.WriteConfiguration(filepath.Dir(s.ConfigFile), rig.Plan{})))
	reader, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	reader.Close()
	create := exec.Command("threeds", "key", "create", "--name", "Shop", "--config", s.ConfigFile)
	create.Stdout = out
	if err := create.Run(); create.ProcessState.ExitCode() != 1 {
		t.Errorf("key create into a broken pipe: %v, want exit status 1", err)
	}
	list, err := exec.Command("threeds", "key", "list", "--config", s.ConfigFile).Output()
	if err != nil || strings.Contains(string(list), "Shop") {
		t.Errorf("keys after it, %v:\n%s", err, list)
	}
}

// TestNothingStaysWhoseSecretNobodyHas: so it is with a token and a webhook endpoint.
func TestNothingStaysWhoseSecretNobodyHas(t *testing.T) {
	t.Parallel()
	file := checkSite(t, rig.Plan{})
	for make, list := range map[string]string{
		"token create --name nobodys --role viewer":                    "token list",
		"webhook add --merchant Shop https://nobodys.example/h":        "webhook list --merchant Shop",
		"webhook add --json --merchant Shop https://nobodys.example/h": "webhook list --merchant Shop",
	} {
		reader, out, err := os.Pipe()
		rig.Must(t, err)
		rig.Must(t, reader.Close())
		create := exec.Command("threeds", append(strings.Fields(make), "--config", file)...)
		create.Stdout = out
		err = create.Run()
		rig.Must(t, out.Close())
		if create.ProcessState.ExitCode() != 1 {
			t.Errorf("%s into a broken pipe: %v, want exit status 1", make, err)
		}
		after, err := exec.Command("threeds", append(strings.Fields(list), "--config", file)...).Output()
		if err != nil || strings.Contains(string(after), "nobodys") || !strings.Contains(string(after), "CREATED") {
			t.Errorf("%s: after it, %v:\n%s", make, err, after)
		}
	}
}

// TestKeyNotStored: a key that the store has not taken is not given out.
func TestKeyNotStored(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := &rig.Site{World: &rig.World{T: t}, Directory: rig.NewWire(t, ca), Authority: ca, ConfigFile: filepath.Join(t.TempDir(), "threeds.yaml")}
	rig.WriteFile(t, s.ConfigFile, []byte(s.WriteConfiguration(filepath.Dir(s.ConfigFile), rig.Plan{})))
	s.CreateKey("Shop")
	db, err := sql.Open("sqlite", filepath.Join(filepath.Dir(s.ConfigFile), "data", "threeds.db"))
	rig.Must(t, err)
	defer db.Close()
	_, err = db.Exec(`CREATE TRIGGER refuse BEFORE INSERT ON api_keys BEGIN SELECT RAISE(ABORT, 'no more keys'); END`)
	rig.Must(t, err)
	var out, errs strings.Builder
	code := rig.Run(t.Context(), []string{"key", "create", "--name", "Shop", "--config", s.ConfigFile}, nil, &out, &errs)
	if code != 1 || out.Len() > 0 || !strings.Contains(errs.String(), "no more keys") {
		t.Errorf("exit status %d, %q, %q; want no key and why", code, out.String(), errs.String())
	}
}

// TestForTheOwnerAlone: what the first command and the first start make of secrets,
// results and card ranges nobody but their owner may look at, whatever the umask is.
func TestForTheOwnerAlone(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := &rig.Site{World: &rig.World{T: t}, Directory: rig.NewWire(t, ca), Authority: ca, ConfigFile: filepath.Join(t.TempDir(), "threeds.yaml")}
	rig.WriteFile(t, s.ConfigFile, []byte(s.WriteConfiguration(filepath.Dir(s.ConfigFile), rig.Plan{})))
	create := exec.Command("sh", "-c", `umask 0; exec threeds key create --name Shop --config "$0"`, s.ConfigFile)
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	serve := &rig.Process{T: t, Cmd: exec.Command("sh", "-c", `umask 0; exec threeds serve --config "$0"`, s.ConfigFile)}
	serve.Start()
	waittest.Until(t, "serving", func() bool { return strings.Contains(serve.Log.String(), "card ranges refreshed") })
	files := 0
	err := filepath.WalkDir(filepath.Join(filepath.Dir(s.ConfigFile), "data"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v", filepath.Base(path), info.Mode())
		}
		files++
		return err
	})
	if err != nil || files < 4 { // the directory, keys, the database and its log
		t.Errorf("%d files, %v", files, err)
	}
	serve.End(os.Interrupt)
}
