package message

// criticalExtensions reports the extensions that ask to be understood and are
// not. That is all that is ever said about what an extension means.
func (c *checker) criticalExtensions() {
	list := c.m.member(0, idExtension)
	if list == 0 || c.table.rowOf[idExtension] < 0 || c.m.nodes[list].kind != jsonArray {
		return
	}
	for n, i := 0, list+1; i < c.m.nodes[list].next; n, i = n+1, c.m.nodes[i].next {
		critical, id := c.m.member(i, idCritical), c.m.member(i, idID)
		if critical == 0 || string(c.m.raw(critical)) != "true" || id == 0 || c.m.nodes[id].kind != jsonString || c.m.empty(id) || c.isBlank(id) {
			continue
		}
		name := string(c.m.text(id, nil))
		if c.ctx.KnownExtension == nil || !c.ctx.KnownExtension(name) {
			c.note(CriticalExtension, "messageExtension", n, name)
		}
	}
}

var (
	idCritical = uint32(names.ids["criticalityIndicator"])
	idID       = uint32(names.ids["id"])
)
