package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2"
	_ "github.com/mattn/go-sqlite3"
	bolt "go.etcd.io/bbolt"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	_ "modernc.org/sqlite"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
	restored "github.com/podconfigd/podconfigd/test/testutil/recovered"
)

type ownLog struct {
	log *store.Log
	// first is the newest revision at the start. begin is added to the revisions of put.
	first, begin int64
	pods         map[types.UID]*journal.Pod
	shown        chan journal.Commit
	stop         context.CancelFunc
	done         chan error
}

func openLog(dir string) (database, error) {
	log, recovered, err := store.Open(store.Options{Dir: dir, Node: "node"})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	l := &ownLog{log, recovered.Revision, 0, make(map[types.UID]*journal.Pod), make(chan journal.Commit, 1), stop, make(chan error, 1)}
	log.Begin(restored.Table(recovered.Revision, maps.Values(l.pods)))
	if !recovered.Resumed {
		l.begin = recovered.Revision
	}
	go func() { l.done <- log.Run(ctx) }()
	return l, nil
}

func (l *ownLog) put(revision int64, pod *v1.Pod) error {
	revision += l.begin
	stored := journal.NewStored("api", pod, nil, revision, nil)
	l.pods[pod.UID] = stored
	after := restored.Table(revision, maps.Values(l.pods)) // a journal has it already, so this counts against the log
	l.log.Append(&journal.Set{First: revision, Revision: revision, Time: time.Now(), After: after, Updates: []*journal.Update{{
		First: revision, Revision: revision, Op: config.UPDATE, Source: "api", Pods: []*journal.Pod{stored},
	}}}, func(c journal.Commit) { l.shown <- c })
	if c := <-l.shown; !c.Stored {
		return l.log.Status().Err
	}
	return nil
}

func (l *ownLog) last() (int64, error) { return l.first, nil }

func (l *ownLog) close() error {
	l.stop()
	if err := <-l.done; !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

type sqlite struct{ db *sql.DB }

func openSQLite(driver string) func(dir string) (database, error) {
	return func(dir string) (database, error) {
		db, err := sql.Open(driver, filepath.Join(dir, "db"))
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(1)
		for _, statement := range []string{
			"PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL",
			"CREATE TABLE IF NOT EXISTS log (revision INTEGER PRIMARY KEY, pod BLOB)",
			"CREATE TABLE IF NOT EXISTS state (uid TEXT PRIMARY KEY, revision INTEGER, pod BLOB)",
		} {
			if _, err := db.ExecContext(context.Background(), statement); err != nil {
				return nil, err
			}
		}
		return sqlite{db}, nil
	}
}

func (s sqlite) put(revision int64, pod *v1.Pod) error {
	data, err := pod.Marshal()
	if err != nil {
		return err
	}
	ctx := context.Background()
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit, it does nothing
	if _, err := tx.ExecContext(ctx, "INSERT INTO log VALUES (?, ?)", revision, data); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO state VALUES (?, ?, ?)", string(pod.UID), revision, data); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM log WHERE revision <= ?", revision-history); err != nil {
		return err
	}
	return tx.Commit()
}

func (s sqlite) last() (revision int64, err error) {
	err = s.db.QueryRowContext(context.Background(), "SELECT coalesce(max(revision), 0) FROM log").Scan(&revision)
	return revision, err
}

func (s sqlite) close() error { return s.db.Close() }

type boltDB struct{ db *bolt.DB }

func openBolt(noSync bool) func(dir string) (database, error) {
	return func(dir string) (database, error) {
		db, err := bolt.Open(filepath.Join(dir, "db"), 0o600, &bolt.Options{NoSync: noSync})
		if err != nil {
			return nil, err
		}
		return boltDB{db}, db.Update(func(tx *bolt.Tx) error {
			_, err := tx.CreateBucketIfNotExists([]byte("log"))
			if err == nil {
				_, err = tx.CreateBucketIfNotExists([]byte("state"))
			}
			return err
		})
	}
}

func (b boltDB) put(revision int64, pod *v1.Pod) error {
	data, err := pod.Marshal()
	if err != nil {
		return err
	}
	return b.db.Update(func(tx *bolt.Tx) error {
		log := tx.Bucket([]byte("log"))
		log.FillPercent = 1 // its keys grow
		if err := log.Put(key(revision), data); err != nil {
			return err
		}
		if err := log.Delete(key(revision - history)); err != nil {
			return err
		}
		return tx.Bucket([]byte("state")).Put([]byte(pod.UID), data)
	})
}

func (b boltDB) last() (revision int64, err error) {
	err = b.db.View(func(tx *bolt.Tx) error {
		if k, _ := tx.Bucket([]byte("log")).Cursor().Last(); k != nil {
			revision = revisionOf(k)
		}
		return nil
	})
	return revision, err
}

func (b boltDB) close() error { return b.db.Close() }

type pebbleDB struct {
	db      *pebble.DB
	options *pebble.WriteOptions
}

func openPebble(sync bool) func(dir string) (database, error) {
	return func(dir string) (database, error) {
		db, err := pebble.Open(filepath.Join(dir, "db"), &pebble.Options{Logger: silent{}})
		return pebbleDB{db, &pebble.WriteOptions{Sync: sync}}, err
	}
}

func (p pebbleDB) put(revision int64, pod *v1.Pod) error {
	data, err := pod.Marshal()
	if err != nil {
		return err
	}
	b := p.db.NewBatch()
	defer b.Close()
	if err := b.Set(key(revision), data, nil); err != nil {
		return err
	}
	if err := b.Delete(key(revision-history), nil); err != nil {
		return err
	}
	if err := b.Set([]byte("state/"+string(pod.UID)), data, nil); err != nil {
		return err
	}
	return b.Commit(p.options)
}

func (p pebbleDB) last() (int64, error) {
	it, err := p.db.NewIter(&pebble.IterOptions{LowerBound: []byte("log/"), UpperBound: []byte("log0")})
	if err != nil || !it.Last() {
		return 0, err
	}
	defer it.Close()
	return revisionOf(it.Key()), nil
}

func (p pebbleDB) close() error { return p.db.Close() }

// silent logs only what ends the process.
type silent struct{}

func (silent) Infof(string, ...any)              {}
func (silent) Errorf(string, ...any)             {}
func (silent) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
