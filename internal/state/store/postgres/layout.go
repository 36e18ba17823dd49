package postgres

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/state/store"
)

const (
	sqlServerVersion = `SELECT split_part(current_setting('server_version'), ' ', 1)`
	sqlCitusVersion  = `SELECT split_part(citus_version(), ' ', 2)`

	// The server counts rows that come and go, from its last crash on, and remembers how many there were when it looked.
	sqlSize = `coalesce(nullif(pg_stat_get_live_tuples(p.oid), 0), greatest(p.reltuples, 0)::bigint)`

	// A partitioned table has the rows of its partitions.
	sqlTables = `SELECT c.relname, c.oid, coalesce(sum(` + sqlSize + `), 0)::bigint,
			coalesce(sum(pg_total_relation_size(p.oid)), 0)::bigint
		FROM pg_class c LEFT JOIN pg_class p ON p.oid = c.oid AND c.relkind = 'r'
			OR p.oid IN (SELECT relid FROM pg_partition_tree(c.oid) WHERE isleaf) AND c.relkind = 'p'
		WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
		GROUP BY c.relname, c.oid ORDER BY c.relname`

	sqlCitusTables = `SELECT logicalrelid::oid, coalesce(column_to_column_name(logicalrelid, partkey), ''),
			repmodel = 't' AND partkey IS NULL
		FROM pg_dist_partition`
	sqlPlaces = `SELECT s.logicalrelid::oid, p.groupid, s.shardid
		FROM pg_dist_shard s JOIN pg_dist_placement p USING (shardid)`
	// A server that does not answer has no success.
	sqlShardSizes = `SELECT shardid, split_part(result, ' ', 1)::bigint, split_part(result, ' ', 2)::bigint
		FROM run_command_on_shards($1::oid::regclass,
			$$SELECT ` + sqlSize + ` || ' ' || pg_total_relation_size(p.oid) FROM pg_class p WHERE p.oid = '%s'::regclass$$)
		WHERE success`
)

var _ store.Surveyor = (*DB)(nil)

// Layout implements [store.Surveyor].
func (db *DB) Layout(ctx context.Context) (l store.Layout, err error) {
	if err := db.beginCall(ctx); err != nil {
		return l, err
	}
	defer db.endCall()
	var nodes []node
	if db.engine == Citus {
		if nodes, err = db.checkedNodes(ctx); err != nil {
			return l, err
		}
	}
	err = db.transact(ctx, "layout", func(ctx context.Context, tx pgx.Tx) error {
		s := survey{tx: tx, nodes: nodes, oids: make(map[uint32]int)}
		if err := s.readLayout(ctx, db.engine); err != nil {
			return err
		}
		l = s.layout
		return nil
	})
	return l, err
}

// A survey makes a layout.
type survey struct {
	tx     pgx.Tx
	nodes  []node // of Citus
	layout store.Layout
	oids   map[uint32]int // where a table is in the layout
}

// readLayout reads what this server says of itself and its tables, and with Citus of the workers and theirs.
func (s *survey) readLayout(ctx context.Context, engine Engine) error {
	var version string
	if err := s.tx.QueryRow(ctx, sqlServerVersion).Scan(&version); err != nil {
		return err
	}
	c := s.tx.Conn().Config()
	here := net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
	s.layout.Engine, s.layout.Version = string(cmp.Or(engine, Plain)), "PostgreSQL "+version
	role := store.PrimaryRole
	if engine == Citus {
		role = store.CoordinatorRole
	}
	s.layout.Nodes = []store.LayoutNode{{Name: here, Role: role, IsUp: true}}
	if err := s.readTables(ctx, here); err != nil {
		return err
	}
	if engine == Citus {
		if err := s.readCitus(ctx, here); err != nil {
			return err
		}
	}
	s.addUp()
	return nil
}

// readTables reads the tables as one server has them.
func (s *survey) readTables(ctx context.Context, here string) error {
	result, err := s.tx.Query(ctx, sqlTables)
	if err != nil {
		return err
	}
	var name string
	var oid uint32
	var rows, bytes *int64
	_, err = pgx.ForEachRow(result, []any{&name, &oid, &rows, &bytes}, func() error {
		s.oids[oid] = len(s.layout.Tables)
		s.layout.Tables = append(s.layout.Tables, store.LayoutTable{
			Name: name, Kind: store.LocalTable, Places: []store.LayoutPlace{{Node: here, Rows: rows, Bytes: bytes}},
		})
		rows, bytes = nil, nil
		return nil
	})
	return err
}

// readCitus puts into the layout what Citus says of nodes and of the tables that it knows.
func (s *survey) readCitus(ctx context.Context, here string) error {
	var version string
	// Citus warns of servers that do not answer.
	if _, err := s.tx.Exec(ctx, `SET LOCAL client_min_messages = error`); err != nil {
		return err
	}
	if err := s.tx.QueryRow(ctx, sqlCitusVersion).Scan(&version); err != nil {
		return err
	}
	s.layout.Version += ", Citus " + version
	names := map[int32]string{0: here}
	for _, n := range s.nodes {
		name := net.JoinHostPort(n.host, strconv.Itoa(int(n.port)))
		if n.group == 0 {
			continue
		}
		names[n.group] = name
		s.layout.Nodes = append(s.layout.Nodes, store.LayoutNode{Name: name, Role: store.WorkerRole, IsUp: n.isUp})
	}
	slices.SortFunc(s.layout.Nodes[1:], func(a, b store.LayoutNode) int { return cmp.Compare(a.Name, b.Name) })
	known, err := s.readKinds(ctx)
	if err != nil {
		return err
	}
	return s.readPlaces(ctx, known, names)
}

// readKinds reads how Citus keeps the tables that it knows, and returns their ids.
func (s *survey) readKinds(ctx context.Context) (known []uint32, err error) {
	result, err := s.tx.Query(ctx, sqlCitusTables)
	if err != nil {
		return nil, err
	}
	var oid uint32
	var key string
	var isReference bool
	_, err = pgx.ForEachRow(result, []any{&oid, &key, &isReference}, func() error {
		i, isOurs := s.oids[oid]
		if !isOurs {
			return nil // of another schema
		}
		switch t := &s.layout.Tables[i]; {
		case key != "":
			t.Kind, t.Key = store.DistributedTable, key
		case isReference:
			t.Kind = store.ReferenceTable
		default:
			return nil
		}
		known = append(known, oid)
		return nil
	})
	return known, err
}

// readPlaces reads on which nodes the shards of tables are, and how large they are.
func (s *survey) readPlaces(ctx context.Context, known []uint32, names map[int32]string) error {
	type placed struct {
		oid   uint32
		group int32
		shard int64
	}
	result, err := s.tx.Query(ctx, sqlPlaces)
	if err != nil {
		return err
	}
	all, err := pgx.CollectRows(result, func(row pgx.CollectableRow) (p placed, err error) {
		err = row.Scan(&p.oid, &p.group, &p.shard)
		return p, err
	})
	if err != nil {
		return err
	}
	for _, oid := range known {
		sizes, err := s.readSizes(ctx, oid)
		if err != nil {
			return err
		}
		places := map[string]*store.LayoutPlace{}
		shards := map[int64]bool{}
		for _, p := range all {
			if p.oid != oid {
				continue
			}
			shards[p.shard] = true
			name := cmp.Or(names[p.group], fmt.Sprintf("group %d", p.group))
			place := places[name]
			if place == nil {
				place = &store.LayoutPlace{Node: name, Rows: new(int64), Bytes: new(int64)}
				places[name] = place
			}
			place.Shards++
			size, isKnown := sizes[p.shard]
			place.Rows = addKnown(place.Rows, size.rows, isKnown)
			place.Bytes = addKnown(place.Bytes, size.bytes, isKnown)
		}
		t := &s.layout.Tables[s.oids[oid]]
		t.Shards, t.Places = len(shards), nil
		for _, name := range slices.Sorted(maps.Keys(places)) {
			t.Places = append(t.Places, *places[name])
		}
	}
	return nil
}

// addKnown returns a sum, nil if a part of it is not known.
func addKnown(sum *int64, n int64, isKnown bool) *int64 {
	if sum == nil || !isKnown {
		return nil
	}
	*sum += n
	return sum
}

type shardSize struct{ rows, bytes int64 }

// readSizes asks the shards of a table how large they are. Those that do not answer are left out.
func (s *survey) readSizes(ctx context.Context, oid uint32) (map[int64]shardSize, error) {
	result, err := s.tx.Query(ctx, sqlShardSizes, oid)
	if err != nil {
		return nil, err
	}
	sizes := map[int64]shardSize{}
	var shard int64
	var size shardSize
	_, err = pgx.ForEachRow(result, []any{&shard, &size.rows, &size.bytes}, func() error {
		sizes[shard] = size
		return nil
	})
	return sizes, err
}

// addUp adds to the nodes what they have of the tables.
func (s *survey) addUp() {
	for i := range s.layout.Nodes {
		n := &s.layout.Nodes[i]
		n.Bytes = new(int64)
		for _, t := range s.layout.Tables {
			for _, p := range t.Places {
				if p.Node != n.Name {
					continue
				}
				n.Shards += p.Shards
				var bytes int64
				if p.Bytes != nil {
					bytes = *p.Bytes
				}
				n.Bytes = addKnown(n.Bytes, bytes, p.Bytes != nil)
			}
		}
	}
}
