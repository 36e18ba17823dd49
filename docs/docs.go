// Package docs has the pages of the documentation, and the order in which a reader finds them. Use [Files] for their
// text in Markdown and for their pictures, and [Areas] for the order.
package docs

import "embed"

// Files are the pages, their pictures and the description of the API, by their path below docs/.
//
//go:embed *.md */*.md images/flows/*.svg images/pages/*.png openapi.yaml
var Files embed.FS

// An Area has the pages for readers with one kind of task.
type Area struct {
	Title, About string
	Sections     []Section
}

// A Section is a group of pages that are read together.
type Section struct {
	Title string
	Pages []string // Pages are paths in [Files].
}

// Areas returns the areas. Each page is in one of them.
func Areas() []Area {
	return []Area{
		{
			Title: "Take payments", About: "A shop with a web page: one call from your server, one from your page.",
			Sections: []Section{
				{"Begin", []string{"quickstart.md", "browser.md", "authentications.md", "test-cards.md", "testing.md"}},
				{"Use the result", []string{"authorisation.md", "webhooks.md", "errors.md", "idempotency.md"}},
				{"What schemes ask for", []string{"schemes.md"}},
				{"Look it up", []string{"check.md", "error-finder.md", "glossary.md"}},
			},
		},
		{
			Title: "Apps and back ends", About: "Gateways, apps, subscriptions and agents: the API of the protocol itself.",
			Sections: []Section{
				{"Begin", []string{"getting-started.md", "migrating.md", "browser-flow.md"}},
				{"Without a web page", []string{"app-flow.md", "3ri.md", "decoupled.md", "acp.md"}},
				{"Old cards", []string{"v1.md"}},
			},
		},
		{
			Title: "Run the server",
			About: "Certificates, databases and nodes. What to watch, and what to do when an alert comes.",
			Sections: []Section{
				{"Begin", []string{
					"operating/README.md", "configuration.md", "rehearsal.md", "operating/start-stop.md", "operating/reload.md",
					"operating/kubernetes.md", "operating/network.md", "operating/upgrades.md",
					"operating/releases.md",
				}},
				{"Go live", []string{"going-live.md", "operating/pci.md", "operating/outsourcing.md"}},
				{"When something is wrong", []string{
					"operating/troubleshooting.md", "operating/alerts.md", "operating/alerts-state.md", "operating/objectives.md",
					"operating/logs.md",
					"operating/metrics.md", "operating/overload.md",
				}},
				{"Directories and cards", []string{
					"operating/directories.md", "operating/own-scheme.md", "operating/card-ranges.md",
					"operating/certificates.md", "operating/revocation.md",
				}},
				{"People and keys", []string{
					"operating/operators.md", "operating/groups.md", "operating/admin.md", "operating/keys.md",
					"operating/hsm.md", "operating/merchants.md", "operating/scheme-rules.md", "operating/billing.md",
				}},
				{"Data", []string{
					"operating/database.md", "postgres.md", "operating/patroni.md", "operating/backup.md",
					"operating/durability.md", "operating/journal.md", "operating/holds.md", "operating/evidence.md",
					"operating/siem.md",
				}},
				{"Growth", []string{"nodes.md", "scale.md"}},
			},
		},
		{
			Title: "Build on it", About: "Each message, element and code, what clients may rely on, and how the server is made.",
			Sections: []Section{
				{"The API", []string{"api.md", "mcp.md"}},
				{"Messages", []string{
					"reference/README.md", "reference/areq.md", "reference/ares.md", "reference/creq.md", "reference/cres.md",
					"reference/rreq.md", "reference/rres.md", "reference/erro.md", "reference/preq.md", "reference/pres.md",
					"reference/oreq.md", "reference/ores.md", "reference/objects.md", "reference/extensions.md",
				}},
				{"Tables", []string{"reference/codes.md", "reference/cures.md"}},
				{"Evidence", []string{"conformance.md", "goals.md"}},
				{"The project", []string{
					"project/versions.md", "project/advisory.md", "project/telemetry.md", "project/licences.md",
				}},
				{"How it is made", []string{
					"design/glossary.md", "design/invariants.md", "design/state.md", "design/nodes.md", "design/citus.md",
					"design/ids.md", "design/waiting-card.md", "design/follow-ups.md", "design/card-ranges.md",
					"design/overload.md", "design/journal.md", "design/process.md", "design/trust.md", "design/v1.md",
					"design/libraries.md",
				}},
			},
		},
	}
}
