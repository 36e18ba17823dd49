// Package v1 plays the directory servers of 3-D Secure 1.0.2 and the issuers behind them.
//
// Package sandbox calls [New] once, and [Network.Authenticate] for each cardholder who comes to an issuer's page. The
// directory servers write and sign as real ones do, each in a way of its own. What they do with a card, and what goes
// wrong for a merchant, stands in scenarios/v1.txt.
package v1

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// Options are what a [Network] needs of the sandbox. All fields are required.
type Options struct {
	Table   string   // the text of scenarios/v1.txt
	Schemes []Scheme // with a directory server
	Nice    bool     // writes without the habits of real peers
	Keep    int      // how many enrolled cards are remembered
	Hosts   []string // where the directory servers listen, for their certificates
	PageURL string   // of the issuers' pages; the word of a scheme follows

	Now      func() time.Time
	Log      *slog.Logger
	SchemeOf func(pan string) string // the word of the scheme of a card
	Listen   func(http.Handler, *tls.Config) (url string, err error)
	Go       func(func()) // runs in the background, until the sandbox is closed

	Alter func(kind string, message []byte) []byte // what is sent in place of a message
	Note  func(messageID, from, to, kind string, message []byte)
}

// A Scheme is a card scheme that has 1.0.2.
type Scheme struct {
	Word            string // as the requestor's API names it
	Name            string // as a cardholder knows it
	ECI, AttemptECI string
}

// A Network is the directory servers of all schemes, and their issuers.
type Network struct {
	o           Options
	table       table
	directories []*directory

	mu       sync.Mutex
	accounts map[string]*account
	order    []string // of accounts, oldest first
}

// New opens the listeners of the directory servers.
func New(o Options) (*Network, error) {
	n := &Network{o: o, accounts: make(map[string]*account)}
	var err error
	if n.table, err = readTable(o.Table); err != nil {
		return nil, fmt.Errorf("scenarios/v1.txt: %w", err)
	}
	for _, scheme := range o.Schemes {
		d, err := newDirectory(n, scheme)
		if err != nil {
			return nil, err
		}
		n.directories = append(n.directories, d)
	}
	return n, nil
}

// Directories describes each directory server, in the order of Options.
func (n *Network) Directories() []Directory {
	var all []Directory
	for _, d := range n.directories {
		all = append(all, d.describe())
	}
	return all
}

// addAccount remembers an enrolled card, and forgets the oldest when there are too many.
func (n *Network) addAccount(a *account) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.accounts[a.id] = a
	if n.order = append(n.order, a.id); len(n.order) > n.o.Keep {
		delete(n.accounts, n.order[0])
		n.order = n.order[1:]
	}
}

func (n *Network) findAccount(id string) *account {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.accounts[id]
}
