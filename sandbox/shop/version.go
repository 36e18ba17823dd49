package shop

import "slices"

// versions are those that the shop can speak, ascending.
var versions = []string{"2.1.0", "2.2.0", "2.3.1"}

func isVersion(v string) bool { return slices.Contains(versions, v) }

// highest returns the highest version that directory server, ACS, 3DS server
// and shop have in common, "" when there is none.
func highest(crd *message) string {
	for _, v := range slices.Backward(versions) {
		_, atACS := methodURL(crd, v)
		if atACS && slices.Contains(crd.DSVersions, v) && slices.Contains(crd.ServerVersions, v) {
			return v
		}
	}
	return ""
}

// methodURL returns where the ACS wants the 3DS Method in one version, "" for
// nowhere, and whether the ACS has that version at all. The URL beside the list
// belongs to the highest version and is not looked at.
func methodURL(crd *message, version string) (string, bool) {
	for _, v := range crd.ACSVersions {
		if v.Version == version {
			return v.ThreeDSMethodURL, true
		}
	}
	return "", false
}
