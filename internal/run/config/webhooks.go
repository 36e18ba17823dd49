package config

import (
	"fmt"
	"slices"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/operate/webhook"
)

func (l *loader) readWebhooks(s *section) {
	defer s.close()
	c := &l.config.Webhooks
	c.Allow = list(s, "allow", network, false)
	c.HTTP = optional(s, "http", boolean, "false")
	c.Roots = optional(s, "roots", l.caFile(), "")
	c.Retry = list(s, "retry", duration("1s", "168h"), false)
	c.Timeout = optional(s, "timeout", duration("1s", "60s"), "10s")
	c.DisableAfter = optional(s, "disable_after", duration("1s", "720h"), "120h")
	c.Operator = sections(s, "operator", false, func(s *section) (o WebhookOperator) {
		defer s.close()
		o.URL = required(s, "url", httpURL)
		o.Secret = required(s, "secret", fileKind(l, func(path string) SigningSecret { return SigningSecret{File: path} }))
		o.Types = list(s, "types", oneOf(api.EventTypesFor(api.ForOperator)...), false)
		return o
	})
}

// WebhookAddresses returns which addresses the events of merchants may go to.
func (c *Config) WebhookAddresses() webhook.Addresses {
	a := webhook.Addresses{HTTP: c.Webhooks.HTTP}
	for _, text := range c.Webhooks.Allow {
		if network, err := ParseNetwork(text); err == nil { // the reader has reported others
			a.Allowed = append(a.Allowed, network)
		}
	}
	return a
}

// checkWebhooks checks the URLs of the operator against the rest of the section, and each other.
func (l *loader) checkWebhooks() {
	addresses := l.config.WebhookAddresses().ForOperator()
	for i, o := range l.config.Webhooks.Operator {
		path := fmt.Sprintf("webhooks.operator[%d].url", i)
		if o.URL == "" {
			continue
		}
		if err := addresses.CheckURL(o.URL); err != nil {
			l.fault(path, "%v (http is for addresses in webhooks.allow, and with webhooks.http)", err)
		}
		isSame := func(other WebhookOperator) bool { return other.URL == o.URL }
		if slices.ContainsFunc(l.config.Webhooks.Operator[:i], isSame) {
			l.fault(path, "is there twice (one entry may name several types)")
		}
	}
}

// loadWebhookFiles reads the files of the section webhooks.
func (l *loader) loadWebhookFiles(now time.Time) {
	c := &l.config.Webhooks
	l.loadCA(&c.Roots, "webhooks.roots", now)
	for i := range c.Operator {
		l.loadSigningSecret(&c.Operator[i].Secret, fmt.Sprintf("webhooks.operator[%d].secret", i))
	}
}
