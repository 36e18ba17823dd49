package sandbox

import (
	"crypto/tls"
	"fmt"
	"net/http"
)

// sharedDirectories is one listener for all directory servers of EMV 3-D Secure, by path.
type sharedDirectories struct {
	url string
	mux *http.ServeMux
}

func newSharedDirectories(s *Sandbox) (*sharedDirectories, error) {
	names := s.certs.hosts
	for i := range schemes {
		names = append(names[:len(names):len(names)], schemes[i].serverName())
	}
	server, err := s.certs.directories.Issue("ds.sandbox.test", names...)
	if err != nil {
		return nil, err
	}
	d := &sharedDirectories{mux: http.NewServeMux()}
	l, err := s.listenAt(s.DirectoriesListen, d.mux, &tls.Config{
		Certificates: []tls.Certificate{server},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    s.certs.servers.Pool(),
		MinVersion:   tls.VersionTLS12,
	})
	if err != nil {
		return nil, fmt.Errorf("listener of the directory servers: %w", err)
	}
	d.url = l.url
	return d, nil
}

// add serves a directory server below the word of its scheme, and returns its URL.
func (d *sharedDirectories) add(one *directory) string {
	path := "/" + one.scheme.word
	d.mux.Handle(path+"/", http.StripPrefix(path, one))
	return d.url + path + "/"
}
