package api

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestOV6RequestsThatWaitShutNobodyOut: requests that wait for a result hold all connections of the API, with
// and without TLS. Each request of another merchant is served all the same. Who waited longest is answered
// early, as things stand.
func TestOV6RequestsThatWaitShutNobodyOut(t *testing.T) {
	const most, keys, others = 40, 5, 80
	for _, isSecured := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %t", isSecured), func(t *testing.T) {
			t.Parallel()
			ca := rig.NewAuthority(t)
			s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{
				APITLS: isSecured, Sections: fmt.Sprintf("limits: {connections: %d, per_key: 10000/s}", most),
			})
			address, err := url.Parse(s.API)
			if err != nil {
				t.Fatal(err)
			}
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(ca.PEM())
			// send opens a connection and sends a request on it.
			send := func(path, key, body string) net.Conn {
				t.Helper()
				c, err := net.Dial("tcp", address.Host)
				if err == nil && isSecured {
					c = tls.Client(c, &tls.Config{RootCAs: roots, ServerName: address.Hostname()})
				}
				if err == nil {
					_, err = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nAPIKey: %s\r\nContent-Length: %d\r\n\r\n%s", path, key, len(body), body)
				}
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Close() })
				return c
			}
			read := func(c net.Conn) (status int, header http.Header, body []byte, err error) {
				answer, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					return 0, nil, nil, err
				}
				body, err = io.ReadAll(answer.Body)
				return answer.StatusCode, answer.Header, body, err
			}
			call := func(path string, request rig.Object) (answer rig.Object) {
				t.Helper()
				_, _, body, err := read(send(path, s.APIKey, string(rig.Marshal(request))))
				if err == nil {
					err = json.Unmarshal(body, &answer)
				}
				if err != nil {
					t.Fatal(err)
				}
				return answer
			}
			s.Directory.SetAnswer(rig.AnswerStatus("C"))
			found := call("/preauth", rig.Object{"acctNumber": rig.EnrolledPAN})
			challenged := call("/auth", rig.BrowserRequest("2.2.0", rig.EnrolledPAN, found.Text("threeDSServerTransID"), "U"))
			if challenged.Text("transStatus") != "C" {
				t.Fatalf("/auth: %v, want a challenge", challenged)
			}
			pending := string(rig.Marshal(rig.Object{"threeDSServerTransID": found.Text("threeDSServerTransID")}))
			var first net.Conn
			for range keys {
				key := s.CreateKey("Shop")
				for range most / 4 {
					c := send("/postauth?wait=60", key, pending)
					if first == nil {
						first = c
					}
				}
			}
			waittest.Until(t, "more connections than there may be", func() bool {
				return s.Metric(`threeds_refused_total{operation="connection",reason="connections"}`) >= keys*most/4-most
			})
			if status, header, _, err := read(first); err != nil || status != http.StatusBadRequest || header.Get("Retry-After") == "" {
				t.Errorf("who waited longest: %d %v, %v, want the 400 of a result that is not there, and Retry-After", status, header, err)
			}
			served := 0
			for range others {
				c := send("/preauth", s.OtherAPIKey, `{"acctNumber":"`+rig.EnrolledPAN+`"}`)
				if status, _, _, err := read(c); err == nil && status == http.StatusOK {
					served++
				}
			}
			if served != others {
				t.Errorf("%d of %d requests of another merchant were served", served, others)
			}
		})
	}
}
