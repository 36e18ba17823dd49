package message

// A Version is a protocol version that this package has tables for. The zero
// Version is none of them.
type Version uint8

// The versions, oldest first.
const (
	V210 Version = iota + 1
	V220
	V231

	versionCount = iota + 1 // the length of an array that is indexed by Version
)

var versionNames = [versionCount]string{V210: "2.1.0", V220: "2.2.0", V231: "2.3.1"}

// Versions returns all versions, oldest first.
func Versions() []Version { return []Version{V210, V220, V231} }

// ParseVersion returns the version that messageVersion writes as s, and whether there is
// one.
func ParseVersion(s string) (Version, bool) {
	for v := V210; v <= V231; v++ {
		if s == versionNames[v] {
			return v, true
		}
	}
	return 0, false
}

// String returns v as messageVersion writes it, or "unknown".
func (v Version) String() string {
	if v.isValid() {
		return versionNames[v]
	}
	return "unknown"
}

func (v Version) isValid() bool { return v >= V210 && v <= V231 }

// A Type is a type of message. The zero Type is AReq.
type Type uint8

// The types, in the order in which a transaction uses them.
const (
	AReq Type = iota
	ARes
	RReq
	RRes
	PReq
	PRes
	Erro
	CReq
	CRes
	OReq // from 2.3.1
	ORes // from 2.3.1

	typeCount = 11
)

var typeNames = [typeCount]string{
	"AReq", "ARes", "RReq", "RRes", "PReq", "PRes", "Erro", "CReq", "CRes", "OReq", "ORes",
}

// Types returns all types, in the order in which a transaction uses them.
func Types() []Type {
	return []Type{AReq, ARes, RReq, RRes, PReq, PRes, Erro, CReq, CRes, OReq, ORes}
}

// In reports whether a version has messages of type t.
func (t Type) In(v Version) bool { return v.isValid() && messageRows[t][v] != nil }

// ParseType returns the type that messageType writes as s, and whether there is one.
func ParseType(s string) (Type, bool) {
	for t, name := range typeNames {
		if s == name {
			return Type(t), true
		}
	}
	return 0, false
}

// String returns t as messageType writes it, or "unknown".
func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return "unknown"
}

// A Channel is where a transaction started: deviceChannel. The zero Channel is
// none.
type Channel uint8

// The channels, in the order of the presence columns.
const (
	APP Channel = iota + 1
	BRW
	ThreeRI
)

// Channels returns all channels in the order of the presence columns.
func Channels() []Channel { return []Channel{APP, BRW, ThreeRI} }

// ParseChannel returns the channel that deviceChannel writes as s, and whether there is one.
// The codes of payment systems (80-99) belong to no Channel.
func ParseChannel(s string) (Channel, bool) {
	switch s {
	case "01":
		return APP, true
	case "02":
		return BRW, true
	case "03":
		return ThreeRI, true
	}
	return 0, false
}

// String returns "APP", "BRW", "3RI" or "unknown".
func (c Channel) String() string {
	switch c {
	case APP:
		return "APP"
	case BRW:
		return "BRW"
	case ThreeRI:
		return "3RI"
	}
	return "unknown"
}

// Code returns c as deviceChannel writes it, or "" if c is none of the channels.
func (c Channel) Code() string {
	switch c {
	case APP:
		return "01"
	case BRW:
		return "02"
	case ThreeRI:
		return "03"
	}
	return ""
}

// A Category says whether a payment is authenticated: messageCategory. The zero
// Category is none.
type Category uint8

// The categories, in the order of the presence columns.
const (
	PA Category = iota + 1
	NPA
)

// Categories returns both categories in the order of the presence columns.
func Categories() []Category { return []Category{PA, NPA} }

// ParseCategory returns the category that messageCategory writes as s, and whether there is
// one. The codes of payment systems (80-99) count as NPA.
func ParseCategory(s string) (Category, bool) {
	switch {
	case s == "01":
		return PA, true
	case s == "02", len(s) == 2 && s >= "80" && s <= "99" && s[1] <= '9':
		return NPA, true
	}
	return 0, false
}

// String returns "PA", "NPA" or "unknown".
func (c Category) String() string {
	switch c {
	case PA:
		return "PA"
	case NPA:
		return "NPA"
	}
	return "unknown"
}

// Code returns c as messageCategory writes it, or "" if c is none of the
// categories.
func (c Category) Code() string {
	switch c {
	case PA:
		return "01"
	case NPA:
		return "02"
	}
	return ""
}
