package check

import (
	"slices"
	"strings"

	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/extension"
)

// addExtensions builds message extensions from the plain fields of a request, and returns the faults of
// those fields.
func addExtensions(req *Request, to Target, msg *message.Request) message.Problems {
	changes, found := extension.Build(msg, extensionTarget(req, to, msg))
	req.Changes = append(req.Changes, changes...)
	return found
}

// extensionTarget returns what decides which extensions a request may have.
func extensionTarget(req *Request, to Target, msg *message.Request) extension.Target {
	t := extension.Target{Version: req.Version, Scheme: to.Scheme()}
	t.Channel, _ = message.ParseChannel(msg.Text("deviceChannel"))
	if to.Peer == nil {
		return t
	}
	t.IDs = to.Peer.ExtensionIDs
	if acs := ACSVersion(to.Info, req.Version.String()); acs != nil {
		for _, x := range acs.Extensions {
			t.Listed = append(t.Listed, extension.Supported{ID: x.ID, Version: x.Version})
		}
	}
	return t
}

// checkExtensions returns the faults of the extensions in an AReq. What is missing in an extension that
// the requestor wrote itself is a fault only for strict keys. Areq is nil when its version is not known.
func checkExtensions(req *Request, areq *message.Message) message.Problems {
	switch {
	case areq == nil:
		return nil
	case req.Account.Strict:
		return extension.Check(areq)
	}
	return extension.CheckSent(areq)
}

// bridgeRequest rewrites a request of 2.3.1 for a card that can be used with 2.2.0 and not with 2.3.1, and puts what
// 2.2.0 lacks into the extension Bridging. It returns the faults of that. It does so only for merchants with bridging,
// and not for strict keys.
func bridgeRequest(req *Request, to Target, msg *message.Request) message.Problems {
	if !req.Account.Merchant.Bridging || req.Account.Strict || to.Peer == nil {
		return nil
	}
	common := CommonVersions(to.Peer, to.Info)
	if req.Version == message.V231 && !slices.Contains(common, message.V231) && slices.Contains(common, message.V220) {
		req.Changes = append(req.Changes, normaliseOf231(msg)...)
		req.Version, req.LoggedVersion = message.V220, message.V220.String()
		msg.Set("messageVersion", req.LoggedVersion)
		req.addChange("messageVersion", "2.2.0, the newest that the card can be used with")
	}
	changes, found := extension.Bridge(msg, extensionTarget(req, to, msg))
	req.Changes = append(req.Changes, changes...)
	return found
}

// normaliseOf231 normalises a request of 2.3.1 before it becomes one of 2.2.0, which lacks some of the
// elements. It returns the changes of elements that are still sent.
func normaliseOf231(msg *message.Request) []message.Change {
	return slices.DeleteFunc(msg.Normalise(), func(c message.Change) bool {
		name, _, _ := strings.Cut(c.Path.Name(), ".")
		return message.TableOf(message.AReq, message.V220).Field(name) == nil && !extension.IsBridged(name)
	})
}
