package message

import (
	"bytes"
)

// AddExtension adds an item to messageExtension of the AReq that Build returns, after those that
// the requestor sent. The entry is written as it is.
func (r *Request) AddExtension(entry []byte) { r.extensions = append(r.extensions, entry) }

// Extensions returns how many items the requestor sent in messageExtension.
func (r *Request) Extensions() int {
	i := r.find("messageExtension")
	if i == 0 || r.m.nodes[i].kind != jsonArray {
		return 0
	}
	n := 0
	for j := i + 1; j < r.m.nodes[i].next; j = r.m.nodes[j].next {
		if !r.m.isHollow(j) {
			n++
		}
	}
	return n
}

// writeExtensions writes messageExtension: what the requestor sent, and what was added.
func (b *builder) writeExtensions(f *Field, i uint32) bool {
	mark := len(b.out)
	isWritten := b.writeSent(f, i)
	if len(b.r.extensions) == 0 || isWritten && b.out[len(b.out)-1] != ']' {
		return isWritten
	}
	if isWritten {
		b.out = append(b.out[:len(b.out)-1], ',')
	} else {
		b.out = append(b.out[:mark], '[')
	}
	b.out = append(b.out, bytes.Join(b.r.extensions, []byte(","))...)
	b.out = append(b.out, ']')
	return true
}
