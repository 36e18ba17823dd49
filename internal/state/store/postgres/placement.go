package postgres

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/state/store"
)

// placementEvery is how often the workers of Citus are asked whether they answer.
const placementEvery = 2 * time.Second

// A placement knows which ids of transactions lie where rows can be written now. Its zero value takes all for good.
type placement struct {
	shards  atomic.Pointer[[]shard] // of txns, in the order of their hashes
	renewal chan struct{}           // receives when a write has failed
}

// A shard has the rows of a distributed table whose keys have hashes from low to high.
type shard struct {
	id        int64
	low, high int32
	groups    []int32 // of the nodes that each have a copy, which a write needs all of
	isUp      bool    // all of them answer
}

// CanWrite implements [store.Placer].
func (db *DB) CanWrite(id string) bool {
	if s := db.placement.find(id); s != nil {
		return s.isUp
	}
	return true
}

// find returns the shard of a transaction, nil if that is not known.
func (p *placement) find(id string) *shard {
	all := p.shards.Load()
	if all == nil {
		return nil
	}
	hash := hashText(id)
	i, isFound := slices.BinarySearchFunc(*all, hash, func(s shard, hash int32) int {
		switch {
		case s.high < hash:
			return -1
		case s.low > hash:
			return 1
		}
		return 0
	})
	if !isFound {
		return nil
	}
	return &(*all)[i]
}

// renew has the workers be asked now, and not only when it is time.
func (p *placement) renew() {
	select {
	case p.renewal <- struct{}{}:
	default:
	}
}

// watchPlacement asks the workers now and then, and after each write that has failed, until ctx ends.
func (db *DB) watchPlacement(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-db.placement.renewal:
		}
		_ = db.locate(ctx) // what is known stays when the coordinator is away
	}
}

const (
	// One more column tells whether hashText is the hash that Citus uses.
	sqlShards = `SELECT s.shardid, s.shardminvalue::int, s.shardmaxvalue::int, array_agg(p.groupid ORDER BY p.groupid),
			get_shard_id_for_distribution_column('txns', $1::text)
		FROM pg_dist_shard s JOIN pg_dist_placement p USING (shardid) WHERE s.logicalrelid = 'txns'::regclass
		GROUP BY s.shardid, s.shardminvalue, s.shardmaxvalue`
	sqlNodes = `SELECT groupid, nodename, nodeport, isactive FROM pg_dist_node WHERE noderole = 'primary'`

	// Citus warns of a node that does not answer. It keeps a connection to one that does.
	sqlBeginNodeCheck = `SET LOCAL client_min_messages = error; SET LOCAL statement_timeout = ` + nodeTimeout
	sqlNodeCheck      = `SELECT citus_check_connection_to_node($1, $2)`
)

// locate reads where the shards of transactions are, and asks the nodes that have them whether they answer. It is
// called within a call, or by the watch, for which Close waits too.
func (db *DB) locate(ctx context.Context) error {
	const probe = "probe"
	var shards []shard
	var probed int64
	err := db.call(ctx, "placement", db.timeout, func(ctx context.Context, conn *pgx.Conn) (err error) {
		shards, probed, err = readShards(ctx, conn, probe)
		return err
	}, db.didNothing)
	if err != nil {
		return err
	}
	nodes, err := db.checkedNodes(ctx)
	if err != nil {
		return err
	}
	isUp := make(map[int32]bool)
	for _, n := range nodes {
		isUp[n.group] = n.isUp
	}
	for i := range shards {
		shards[i].isUp = !slices.ContainsFunc(shards[i].groups, func(group int32) bool { return !isUp[group] })
	}
	next := placement{}
	next.shards.Store(&shards)
	if s := next.find(probe); s == nil || s.id != probed {
		db.placement.shards.Store(nil)
		return errors.New("postgres: Citus places transactions by another hash than this build knows")
	}
	db.placement.shards.Store(&shards)
	return nil
}

// readShards returns the shards of the transactions, in the order of their hashes, and the id of the one with a probe.
func readShards(ctx context.Context, conn *pgx.Conn, probe string) (all []shard, probed int64, err error) {
	result, err := conn.Query(ctx, sqlShards, probe)
	if err != nil {
		return nil, 0, err
	}
	var s shard
	_, err = pgx.ForEachRow(result, []any{&s.id, &s.low, &s.high, &s.groups, &probed}, func() error {
		all = append(all, s)
		s.groups = nil
		return nil
	})
	slices.SortFunc(all, func(a, b shard) int { return cmp.Compare(a.low, b.low) })
	return all, probed, err
}

// A node is a server of Citus.
type node struct {
	group    int32
	host     string
	port     int32
	isActive bool // no operator has disabled it
	isUp     bool // it answers; readNodes does not ask
}

func readNodes(ctx context.Context, conn *pgx.Conn) (all []node, err error) {
	result, err := conn.Query(ctx, sqlNodes)
	if err != nil {
		return nil, err
	}
	var n node
	_, err = pgx.ForEachRow(result, []any{&n.group, &n.host, &n.port, &n.isActive}, func() error {
		all = append(all, n)
		return nil
	})
	return all, err
}

// checkedNodes returns the nodes of Citus, each of which was asked whether it answers.
func (db *DB) checkedNodes(ctx context.Context) (nodes []node, err error) {
	err = db.call(ctx, "nodes", db.timeout, func(ctx context.Context, conn *pgx.Conn) (err error) {
		nodes, err = readNodes(ctx, conn)
		return err
	}, db.didNothing)
	for i := range nodes {
		var failed error
		nodes[i].isUp, failed = db.answers(ctx, nodes[i])
		err = errors.Join(err, failed)
	}
	return nodes, err
}

// answers reports whether the coordinator gets an answer from a node. An error says that the coordinator gave none.
func (db *DB) answers(ctx context.Context, n node) (isUp bool, err error) {
	if !n.isActive {
		return false, nil
	}
	err = db.transact(ctx, "node check", func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlBeginNodeCheck); err != nil {
			return err
		}
		return tx.QueryRow(ctx, sqlNodeCheck, n.host, n.port).Scan(&isUp)
	})
	if isSaidByServer(err) { // such as that it has waited for long enough
		return false, nil
	}
	return isUp, err
}

var _ store.Placer = (*DB)(nil)

// hashText is the hash of a text by which PostgreSQL partitions and Citus distributes, if the texts of the column are
// compared byte by byte: hash_any of hashfn.c, the function lookup3 of Bob Jenkins.
func hashText(text string) int32 {
	const golden, pg = 0x9e3779b9, 3923095
	k := []byte(text)
	a := uint32(golden + pg + len(k))
	b, c := a, a
	word := binary.LittleEndian.Uint32
	rot := bits.RotateLeft32
	for ; len(k) >= 12; k = k[12:] {
		a, b, c = a+word(k), b+word(k[4:]), c+word(k[8:])
		a, c = (a-c)^rot(c, 4), c+b
		b, a = (b-a)^rot(a, 6), a+c
		c, b = (c-b)^rot(b, 8), b+a
		a, c = (a-c)^rot(c, 16), c+b
		b, a = (b-a)^rot(a, 19), a+c
		c, b = (c-b)^rot(b, 4), b+a
	}
	var rest [12]byte
	copy(rest[:8], k)
	if len(k) > 8 {
		copy(rest[9:], k[8:]) // the lowest byte of the last word is left to the length
	}
	a, b, c = a+word(rest[:]), b+word(rest[4:]), c+word(rest[8:])
	c = (c ^ b) - rot(b, 14)
	a = (a ^ c) - rot(c, 11)
	b = (b ^ a) - rot(a, 25)
	c = (c ^ b) - rot(b, 16)
	a = (a ^ c) - rot(c, 4)
	b = (b ^ a) - rot(a, 14)
	c = (c ^ b) - rot(b, 24)
	return int32(c)
}
