package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/openthreeds/threeds/internal/base/uuid"
)

// ownTime begins the dsReferenceNumber of an ARes; how long the directory server
// took follows, in nanoseconds. The requestor gets the ARes as it is, so the load
// generator can subtract that time.
const ownTime = "OWN-TIME-"

// Directory is a directory server that enrolls the cards 400000….
type Directory struct {
	status   atomic.Value // string; this and the next two are those of the Manner
	delay    atomic.Int64
	every    atomic.Int64
	asks     atomic.Int64 // AReqs so far, counted while every is not 0
	inFlight atomic.Int64
	most     atomic.Int64              // in flight at once
	offer    atomic.Pointer[Offer]     // the PRes that is served; nil means aPRes
	asked    atomic.Pointer[time.Time] // when the latest PReq came
}

// Open is the certificate of a directory server, and the CA of its clients.
type Open struct {
	CA   []byte
	Cert Certificate
}

// Listen starts the server and returns its address. It ends with the process.
func (d *Directory) Listen(o Open, address *string) error {
	cert, pool, err := o.Cert.load(o.CA)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	*address = l.Addr().String()
	d.status.Store("Y")
	server := &http.Server{
		Handler: d, ReadHeaderTimeout: exchangeTimeout, IdleTimeout: 10 * time.Minute,
		ErrorLog: log.New(io.Discard, "", 0),
	}
	go func() {
		_ = server.Serve(tls.NewListener(l, &tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert},
			ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
		}))
	}()
	return nil
}

// Behaviour is how a directory server answers AReqs.
type Behaviour struct {
	Status string        // transStatus: Y or C
	Delay  time.Duration // from the AReq to the ARes
	Every  int64         // one in so many AReqs gets a challenge, though Status is Y; 0: none
}

// SetBehaviour changes the manner.
func (d *Directory) SetBehaviour(m Behaviour, _ *int) error {
	d.status.Store(m.Status)
	d.delay.Store(int64(m.Delay))
	d.every.Store(m.Every)
	d.most.Store(0)
	return nil
}

// MaxInFlight tells how many AReqs were in flight at once since the last Behave.
func (d *Directory) MaxInFlight(_ int, n *int64) error {
	*n = d.most.Load()
	return nil
}

func (d *Directory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	n := d.inFlight.Add(1)
	defer d.inFlight.Add(-1)
	for most := d.most.Load(); n > most && !d.most.CompareAndSwap(most, n); most = d.most.Load() {
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if string(member(body, "messageType")) == "PReq" {
		d.asked.Store(&start)
		if o := d.offer.Load(); o != nil {
			o.send(w, member(body, "threeDSServerTransID"))
			return
		}
		fmt.Fprintf(w, aPRes, member(body, "threeDSServerTransID"), uuid.New())
		return
	}
	time.Sleep(time.Duration(d.delay.Load()) - time.Since(start))
	outcome := `"transStatus":"Y","eci":"05","authenticationValue":"AAABBCJZUwAAAAAAUFlTAAAAAAA="`
	if every := d.every.Load(); d.status.Load() == "C" || every > 0 && d.asks.Add(1)%every == 0 {
		outcome = `"transStatus":"C","acsChallengeMandated":"N","authenticationType":"02","acsURL":"https://acs.example/challenge"`
	}
	ares := fmt.Appendf(nil, `{"messageType":"ARes","messageVersion":"2.2.0","threeDSServerTransID":"%s","acsTransID":"%s","dsTransID":"%s",`+
		`"acsReferenceNumber":"3DS_LOA_ACS_BENCH_020200_00001","acsOperatorID":"ACS-1",%s,"dsReferenceNumber":"%s%d"}`,
		member(body, "threeDSServerTransID"), uuid.New(), uuid.New(), outcome, ownTime, time.Since(start))
	w.Header().Set("Content-Length", fmt.Sprint(len(ares)))
	_, _ = w.Write(ares)
}

// An Offer is a PRes in a file, as rangestest writes it.
type Offer struct {
	File string
	Size int64
	Rate int64 // bytes per second, as a network would have it; 0: as fast as they are taken
}

// SetRanges has each PReq answered with an offer in place of [aPRes].
func (d *Directory) SetRanges(o Offer, _ *int) error {
	d.offer.Store(&o)
	return nil
}

// CountPReqs tells when the latest PReq came.
func (d *Directory) CountPReqs(_ int, at *time.Time) error {
	if came := d.asked.Load(); came != nil {
		*at = *came
	}
	return nil
}

// send writes the file, with the id of the PReq in place of the one in it. If it cannot
// write everything, the server notices by the Content-Length.
func (o *Offer) send(w http.ResponseWriter, id []byte) {
	f, err := os.Open(o.File)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer f.Close()
	w.Header().Set("Content-Length", fmt.Sprint(o.Size))
	part := make([]byte, 256<<10)
	start, sent := time.Now(), int64(0)
	for {
		n, err := io.ReadFull(f, part)
		if sent == 0 {
			copy(part, bytes.Replace(part[:n], member(part[:n], "threeDSServerTransID"), id, 1))
		}
		if _, bad := w.Write(part[:n]); bad != nil || err != nil {
			return
		}
		if sent += int64(n); o.Rate > 0 {
			time.Sleep(time.Until(start.Add(time.Duration(float64(sent) / float64(o.Rate) * float64(time.Second)))))
		}
	}
}

// aPRes enrolls one range: transaction ids to be filled in.
const aPRes = `{"messageType":"PRes","messageVersion":"2.2.0","threeDSServerTransID":"%s","dsTransID":"%s","serialNum":"1",` +
	`"dsStartProtocolVersion":"2.1.0","dsEndProtocolVersion":"2.2.0","cardRangeData":[` +
	`{"startRange":"4000000000000000","endRange":"4000009999999999","acsStartProtocolVersion":"2.1.0","acsEndProtocolVersion":"2.2.0"}]}`

// Control is a server that answers at once, in a process of its own. How long a request to
// it takes shows what the machine itself adds to every request.
type Control struct{}

// Listen starts the server and returns its address. It ends with the process.
func (*Control) Listen(_ int, address *string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	*address = l.Addr().String()
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(w, r.Body)
		}),
		ReadHeaderTimeout: exchangeTimeout, IdleTimeout: 10 * time.Minute, ErrorLog: log.New(io.Discard, "", 0),
	}
	go func() { _ = server.Serve(l) }()
	return nil
}
