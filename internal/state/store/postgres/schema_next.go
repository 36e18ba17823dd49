//go:build threeds_next_schema

package postgres

// A build with this tag plays the next release in tests: its schema has one more step, with
// which this release can work.
func init() {
	migrations = append(migrations, `ALTER TABLE txns ADD COLUMN more text; CREATE TABLE more (id text)`)
}
