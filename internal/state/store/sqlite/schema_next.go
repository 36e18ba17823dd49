//go:build threeds_next_schema

package sqlite

// A build with this tag plays the next release in tests: its schema has one more step, with
// which this release can work.
func init() {
	migrations = append(migrations, `ALTER TABLE txns ADD COLUMN more TEXT; CREATE TABLE more (id TEXT) STRICT`)
}
