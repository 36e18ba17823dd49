package auth

import (
	"context"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/extension"
)

// addExtensions builds message extensions from the plain fields of a request, and returns the faults of
// those fields.
func addExtensions(req *authRequest, to target, msg *message.Request) message.Problems {
	changes, found := extension.Build(msg, extensionTarget(req, to, msg))
	req.changes = append(req.changes, changes...)
	return found
}

// extensionTarget returns what decides which extensions a request may have.
func extensionTarget(req *authRequest, to target, msg *message.Request) extension.Target {
	t := extension.Target{Version: req.version, Scheme: to.scheme()}
	t.Channel, _ = message.ParseChannel(msg.Text("deviceChannel"))
	if to.peer == nil {
		return t
	}
	t.IDs = to.peer.ExtensionIDs
	if acs := acsVersion(to.info, req.version.String()); acs != nil {
		for _, x := range acs.Extensions {
			t.Listed = append(t.Listed, extension.Supported{ID: x.ID, Version: x.Version})
		}
	}
	return t
}

// checkExtensions returns the faults of the extensions in an AReq. What is missing in an extension that
// the requestor wrote itself is a fault only for strict keys. Areq is nil when its version is not known.
func checkExtensions(req *authRequest, areq *message.Message) message.Problems {
	switch {
	case areq == nil:
		return nil
	case req.account.Strict:
		return extension.Check(areq)
	}
	return extension.CheckSent(areq)
}

// bridgeRequest rewrites a request of 2.3.1 for a card that can be used with 2.2.0 and not with 2.3.1, and has
// Bridging carry what 2.2.0 lacks. It returns the faults of that. Only merchants with bridging have
// it, and no strict keys.
func bridgeRequest(req *authRequest, to target, msg *message.Request) message.Problems {
	if !req.account.Merchant.Bridging || req.account.Strict || to.peer == nil {
		return nil
	}
	common := commonVersions(to.peer, to.info)
	if req.version == message.V231 && !slices.Contains(common, message.V231) && slices.Contains(common, message.V220) {
		req.changes = append(req.changes, normaliseOf231(msg)...)
		req.version, req.loggedVersion = message.V220, message.V220.String()
		msg.Set("messageVersion", req.loggedVersion)
		req.addChange("messageVersion", "2.2.0, the newest that the card can be used with")
	}
	changes, found := extension.Bridge(msg, extensionTarget(req, to, msg))
	req.changes = append(req.changes, changes...)
	return found
}

// normaliseOf231 normalises a request of 2.3.1 before it becomes one of 2.2.0, which lacks some of the
// elements. It returns the changes of elements that are sent all the same.
func normaliseOf231(msg *message.Request) []message.Change {
	return slices.DeleteFunc(msg.Normalise(), func(c message.Change) bool {
		name, _, _ := strings.Cut(c.Path.Name(), ".")
		return message.TableOf(message.AReq, message.V220).Field(name) == nil && !extension.IsBridged(name)
	})
}

// logOtherBridging logs that an ARes has the Bridging extension in another version than its AReq. The
// version has to be the same in both, so the issuer may have read the AReq by another one.
func (e *Engine) logOtherBridging(ctx context.Context, c *claim, ares *message.Message) {
	got := extension.VersionOf(ares, extension.BridgingID)
	if c.bridging != "" && got != "" && got != c.bridging {
		e.Log.WarnContext(ctx, "Bridging extension of another version in the answer", "threeDSServerTransID", c.id, "scheme", c.peer.Scheme,
			"sent", c.bridging)
	}
}
