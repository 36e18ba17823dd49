package admin_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/edge/admin"
	"github.com/openthreeds/threeds/internal/peers/clientcert"
	"github.com/openthreeds/threeds/internal/peers/directory"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/state/cluster"
)

// addNode gives the API a server of one directory.
func (s *site) addNode() *admin.Node {
	s.Helper()
	s.handler.Keeper = s.db
	s.handler.Certificates = &clientcert.Service{Store: s.db, Sealer: s.handler.Operators.Sealer, Now: time.Now}
	s.handler.TryCertificate = func(_ context.Context, scheme string, cert tls.Certificate) (directory.HandshakeReport, error) {
		return directory.HandshakeReport{Result: directory.HandshakeAccepted, Detail: cert.Leaf.Subject.CommonName + " at " + scheme}, nil
	}
	n := &admin.Node{
		Directories: func() []admin.Directory {
			d := admin.Directory{Scheme: "visa", Key: "directories[0]", ResultsURL: "https://3ds.example/results", Versions: []string{"2.2.0"}}
			d.Refresh, d.MinRefresh = 4*time.Hour, time.Hour
			return []admin.Directory{d}
		},
		Problems:          func() map[string]string { return nil },
		Endings:           func() map[string]time.Time { return map[string]time.Time{} },
		TroubledEndpoints: func(context.Context) ([]admin.TroubledEndpoint, error) { return nil, nil },
		Members:           func(context.Context) ([]cluster.Member, error) { return []cluster.Member{}, nil },
		Generation:        func(string) *ranges.Generation { return nil },
		HasFile:           func() bool { return true },
		Configuration:     func() *admin.Configuration { return &admin.Configuration{} },
	}
	s.handler.Node = n
	return n
}

// TestK3Directories: the answer has each directory with its traffic; without a journal there is no traffic.
func TestK3Directories(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var got struct{ Data []admin.Directory }
	if w := s.call("viewer", "GET", "directories", ""); json.Unmarshal(w.Body.Bytes(), &got) != nil || len(got.Data) != 1 || got.Data[0].Day == nil ||
		len(got.Data[0].Day.Hours) != 24 || got.Data[0].Ranges.Loaded != nil {
		t.Errorf("directories: %d %s", w.Code, w.Body)
	}
	s.handler.Journal = nil
	if w := s.call("viewer", "GET", "directories", ""); json.Unmarshal(w.Body.Bytes(), &got) != nil || got.Data[0].Day != nil {
		t.Errorf("without a journal: %d %s", w.Code, w.Body)
	}
	s.handler.Node = nil
	if w := s.call("viewer", "GET", "directories", ""); w.Code != 404 {
		t.Errorf("without directories: %d", w.Code)
	}
}
