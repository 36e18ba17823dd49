package account

import (
	"errors"
	"regexp"
	"strconv"
	"time"
)

// A Rate is how many of something may happen in some time. Its text is such as 20/s, 30/m or 100/h. The zero Rate means
// that there is no limit.
type Rate struct {
	Count int
	Per   time.Duration // a second, a minute or an hour
}

var ratePattern = regexp.MustCompile(`^([1-9][0-9]{0,8})/([smh])$`)

// rateUnits are the times that a rate may be for.
var rateUnits = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}

// ParseRate reads the text of a rate.
func ParseRate(text string) (Rate, error) {
	part := ratePattern.FindStringSubmatch(text)
	if part == nil {
		return Rate{}, errors.New("not a rate (a whole number from 1 and /s, /m or /h, such as 500/s)")
	}
	n, _ := strconv.Atoi(part[1])
	return Rate{n, rateUnits[part[2]]}, nil
}

// PerSecond returns the rate in one second; 0 for the zero Rate.
func (r Rate) PerSecond() float64 {
	if r.Per == 0 {
		return 0
	}
	return float64(r.Count) / r.Per.Seconds()
}

// MarshalText implements [encoding.TextMarshaler].
func (r Rate) MarshalText() ([]byte, error) {
	for unit, per := range rateUnits {
		if per == r.Per {
			return []byte(strconv.Itoa(r.Count) + "/" + unit), nil
		}
	}
	return nil, nil
}

// UnmarshalText implements [encoding.TextUnmarshaler]. An empty text is the zero Rate.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*r = Rate{}
		return nil
	}
	*r, err = ParseRate(string(text))
	return err
}
