// Package otlptest reads in tests the spans that a process sends to a collector by OTLP over HTTP. Use [Decode] on the
// body of a request. It reads what tests ask for of opentelemetry/proto/collector/trace/v1 and skips everything else; a
// test in testing/traces compares it with the code that is generated from there.
package otlptest

import (
	"encoding/binary"
	"errors"
	"strconv"
)

// An Export is one request to a collector.
type Export struct {
	Resource map[string]string // what the process says of itself
	Spans    []*Span
}

// A Span is one span. Attributes are texts; those that are numbers are decimal.
type Span struct {
	TraceID, SpanID, ParentSpanID []byte
	TraceState, Name              string
	Kind                          Kind
	Status                        Status
	Start, End                    uint64 // nanoseconds since 1970
	Attributes                    map[string]string
	Events                        []Event
}

// An Event is something that happened during a span.
type Event struct {
	Time       uint64 // nanoseconds since 1970
	Name       string
	Attributes map[string]string
}

// A Kind says which part a span has in a call.
type Kind uint64

// Kinds of spans.
const (
	Internal Kind = 1
	Server   Kind = 2
	Client   Kind = 3
)

// A Status says how a span ended.
type Status uint64

// Statuses of spans.
const (
	Unset Status = 0
	Error Status = 2
)

var errMalformed = errors.New("otlptest: not a message of Protocol Buffers")

// Types of fields on the wire.
const (
	varint  = 0
	fixed64 = 1
	bytes   = 2
	fixed32 = 5
)

// A field is one field of a message: a number, or bytes.
type field struct {
	id     uint64
	number uint64
	bytes  []byte
}

// fields calls visit with each field of a message.
func fields(message []byte, visit func(f field) error) error {
	for len(message) > 0 {
		tag, n := binary.Uvarint(message)
		if n <= 0 {
			return errMalformed
		}
		message = message[n:]
		f := field{id: tag >> 3}
		switch tag & 7 {
		case varint:
			if f.number, n = binary.Uvarint(message); n <= 0 {
				return errMalformed
			}
			message = message[n:]
		case fixed64:
			if len(message) < 8 {
				return errMalformed
			}
			f.number, message = binary.LittleEndian.Uint64(message), message[8:]
		case fixed32:
			if len(message) < 4 {
				return errMalformed
			}
			f.number, message = uint64(binary.LittleEndian.Uint32(message)), message[4:]
		case bytes:
			size, n := binary.Uvarint(message)
			if n <= 0 || size > uint64(len(message)-n) {
				return errMalformed
			}
			f.bytes, message = message[n:n+int(size)], message[n+int(size):]
		default:
			return errMalformed
		}
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}

// Decode reads the body of a request.
func Decode(body []byte) (*Export, error) {
	e := &Export{Resource: make(map[string]string)}
	err := fields(body, func(f field) error {
		if f.id != 1 {
			return nil
		}
		return fields(f.bytes, func(f field) error { // ResourceSpans
			switch f.id {
			case 1:
				return fields(f.bytes, func(f field) error { // Resource
					if f.id == 1 {
						return readAttribute(f.bytes, e.Resource)
					}
					return nil
				})
			case 2:
				return fields(f.bytes, func(f field) error { // ScopeSpans
					if f.id != 2 {
						return nil
					}
					s, err := readSpan(f.bytes)
					e.Spans = append(e.Spans, s)
					return err
				})
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

func readSpan(message []byte) (*Span, error) {
	s := &Span{Attributes: make(map[string]string)}
	return s, fields(message, func(f field) error {
		switch f.id {
		case 1:
			s.TraceID = f.bytes
		case 2:
			s.SpanID = f.bytes
		case 3:
			s.TraceState = string(f.bytes)
		case 4:
			s.ParentSpanID = f.bytes
		case 5:
			s.Name = string(f.bytes)
		case 6:
			s.Kind = Kind(f.number)
		case 7:
			s.Start = f.number
		case 8:
			s.End = f.number
		case 9:
			return readAttribute(f.bytes, s.Attributes)
		case 11:
			event, err := readEvent(f.bytes)
			s.Events = append(s.Events, event)
			return err
		case 15:
			return fields(f.bytes, func(f field) error {
				if f.id == 3 {
					s.Status = Status(f.number)
				}
				return nil
			})
		}
		return nil
	})
}

func readEvent(message []byte) (Event, error) {
	e := Event{Attributes: make(map[string]string)}
	err := fields(message, func(f field) error {
		switch f.id {
		case 1:
			e.Time = f.number
		case 2:
			e.Name = string(f.bytes)
		case 3:
			return readAttribute(f.bytes, e.Attributes)
		}
		return nil
	})
	return e, err
}

// readAttribute reads a KeyValue into attributes. A value that is neither a text nor a whole number is "".
func readAttribute(message []byte, attributes map[string]string) error {
	key, value := "", ""
	err := fields(message, func(f field) error {
		switch f.id {
		case 1:
			key = string(f.bytes)
		case 2:
			return fields(f.bytes, func(f field) error { // AnyValue
				switch f.id {
				case 1:
					value = string(f.bytes)
				case 3:
					value = strconv.FormatInt(int64(f.number), 10)
				}
				return nil
			})
		}
		return nil
	})
	attributes[key] = value
	return err
}
