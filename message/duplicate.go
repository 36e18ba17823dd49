package message

// duplicates reports the members that occur twice in an object or array, and
// in all that is in it.
func (c *checker) duplicates(i uint32) {
	n := &c.m.nodes[i]
	if n.kind != jsonObject && n.kind != jsonArray {
		return
	}
	told := make(map[string]bool)
	for k, j := 0, i+1; j < n.next; k, j = k+1, c.m.nodes[j].next {
		child := &c.m.nodes[j]
		if n.kind == jsonArray {
			if last := len(c.way) - 1; last >= 0 {
				was := c.way[last]
				c.way[last].item = k
				c.duplicates(j)
				c.way[last] = was
			}
			continue
		}
		name := c.memberName(child)
		if child.flags&duplicate != 0 && !told[name] {
			told[name] = true
			c.report(Duplicate, name)
		}
		if child.kind == jsonObject || child.kind == jsonArray {
			c.way = append(c.way, step{name, -1})
			c.duplicates(j)
			c.way = c.way[:len(c.way)-1]
		}
	}
}

// memberName is the name of a member for people. A name that is not ours is
// told only when it looks like one and cannot hide data.
func (c *checker) memberName(n *node) string {
	if n.name < maxNames {
		return names.list[n.name]
	}
	text := nameText(c.m.data, *n)
	digits := 0
	for _, b := range text {
		if isDigit(b) {
			digits++
		}
		if !isAlnum(b) && b != '_' && b != '-' {
			return "unknown"
		}
	}
	if len(text) == 0 || len(text) > 64 || !isAlpha(text[0]) || digits > 5 {
		return "unknown"
	}
	return string(text)
}
