package postgres

import (
	"slices"
	"testing"
)

// TestD114EnvironmentOfLibpqIsIgnored: no variable of libpq has an effect on what a URL means, after DropEnvironment.
func TestD114EnvironmentOfLibpqIsIgnored(t *testing.T) {
	const url = "postgres://db.example/threeds"
	given := map[string]string{
		"PGHOST": "other.example", "PGPORT": "1", "PGDATABASE": "other", "PGUSER": "other", "PGPASSWORD": "other",
		"PGPASSFILE": "/nonexistent", "PGAPPNAME": "other", "PGCONNECT_TIMEOUT": "7", "PGSSLMODE": "disable",
		"PGSSLROOTCERT": "/nonexistent", "PGTARGETSESSIONATTRS": "standby", "PGSERVICE": "other",
		"PGSERVICEFILE": "/nonexistent", "PGTZ": "Other/Zone", "PGOPTIONS": "-c synchronous_commit=off",
	}
	for name := range given {
		t.Setenv(name, "") // and back to what it was at the end
	}
	DropEnvironment()
	before, err := configure(url, callTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PGBOUNCER_SERVICE_HOST", "10.0.0.1")
	for name, value := range given {
		t.Setenv(name, value)
	}
	if _, err := configure(url, callTimeout); err == nil {
		t.Error("the variables have no effect: the test shows nothing")
	}
	dropped := DropEnvironment()
	if len(dropped) != len(given) || !slices.IsSorted(dropped) || slices.Contains(dropped, "PGBOUNCER_SERVICE_HOST") {
		t.Errorf("dropped %v", dropped)
	}
	after, err := configure(url, callTimeout)
	if err != nil {
		t.Fatal(err)
	}
	a, b := before.ConnConfig, after.ConnConfig
	if a.Host != b.Host || a.Port != b.Port || a.Database != b.Database || a.User != b.User || a.Password != b.Password ||
		(a.TLSConfig == nil) != (b.TLSConfig == nil) || a.ConnectTimeout != b.ConnectTimeout {
		t.Errorf("the store is another one: %s at %s, want %s at %s", b.Database, b.Host, a.Database, a.Host)
	}
	for name, value := range b.RuntimeParams {
		if a.RuntimeParams[name] != value {
			t.Errorf("%s of a session is %q, want %q", name, value, a.RuntimeParams[name])
		}
	}
}
