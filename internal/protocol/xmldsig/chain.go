package xmldsig

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"slices"
)

// maxLinks is how many signatures a chain may have, from the signer's certificate to the
// root.
const maxLinks = 4

// maxSteps is how many beginnings of chains are extended for one policy: certificates that
// name one another as issuers can make very many.
const maxSteps = 64

// A link is a pair of certificates: one of them may have signed the other.
type link struct{ child, parent *certificate }

// A search looks for a chain to the roots of one policy.
type search struct {
	policy *Policy
	sha1   bool           // the signature of the document uses SHA-1
	certs  []*certificate // of the document
	links  map[link]bool  // whether parent signed child, as far as it was checked; all searches share it
	// anchored are those of certs that lead to a root of the policy by signatures,
	// whatever else is wrong with them.
	anchored map[*certificate]bool
	steps    int
	refusal  *Refusal // the clearest so far
}

// trust looks for the first policy that one of the signers satisfies, and notes in v what it
// finds.
func (v *Verified) trust(signers, certs []*certificate, policies []Policy) error {
	links := map[link]bool{}
	refusal := &Refusal{Reason: NoRoot}
	for i := range policies {
		s := &search{policy: &policies[i], sha1: v.SHA1, certs: certs, links: links, anchored: map[*certificate]bool{}}
		for _, root := range s.policy.Roots {
			s.anchor(root.cert)
		}
		for _, signer := range signers {
			if chain := s.extend([]*certificate{signer}); chain != nil {
				v.Policy = s.policy.Name
				v.KeyBits = signer.key.N.BitLen()
				v.Chain = len(chain)
				v.SHA1 = v.SHA1 || slices.ContainsFunc(chain[:len(chain)-1], usesSHA1)
				return nil
			}
		}
		refusal = clearer(refusal, s.refusal)
	}
	return refusal
}

// anchor notes the certificates that an authority signed which leads to a root, and those
// that these signed, and so on. No other key is ever used to check a certificate, so that
// a forger, who has keys of his own only, cannot make us check many signatures.
func (s *search) anchor(authority *certificate) {
	for _, c := range s.certs {
		if s.anchored[c] || !bytes.Equal(c.issuer, authority.subject) {
			continue
		}
		if bytes.Equal(c.raw, authority.raw) {
			s.anchored[c] = true // the root itself, which signers often send along
		} else if s.signed(c, authority) {
			s.anchored[c] = true
			s.anchor(c)
		}
	}
}

// extend completes a chain that begins with a signer: it returns chain with the
// certificates up to a root and the root itself, or nil if the policy allows no such chain.
func (s *search) extend(chain []*certificate) []*certificate {
	if s.steps++; s.steps > maxSteps {
		s.note(&Refusal{Reason: LongChain})
		return nil
	}
	last := chain[len(chain)-1]
	for _, root := range s.policy.Roots {
		if !bytes.Equal(root.cert.subject, last.issuer) {
			continue
		}
		whole := append(slices.Clone(chain), root.cert)
		refusal := s.check(whole)
		if refusal == nil {
			return whole
		}
		s.note(refusal)
	}
	if len(chain) > maxLinks {
		return nil // one link more than allowed was tried, so that check could refuse it as too long
	}
	for _, c := range s.certs {
		if !bytes.Equal(c.subject, last.issuer) || slices.Contains(chain, c) {
			continue
		}
		if !s.anchored[c] {
			if s.namesRoot(c) {
				s.note(&Refusal{Reason: LinkBroken, Where: place(len(chain), -1)})
			}
			continue
		}
		if s.signed(last, c) {
			if whole := s.extend(append(slices.Clone(chain), c)); whole != nil {
				return whole
			}
		}
	}
	return nil
}

// namesRoot reports whether the issuer of a certificate has the name of a root of the
// policy.
func (s *search) namesRoot(c *certificate) bool {
	return slices.ContainsFunc(s.policy.Roots, func(r *Root) bool { return bytes.Equal(r.cert.subject, c.issuer) })
}

// note keeps the refusal if it is clearer than the one before.
func (s *search) note(r *Refusal) {
	r.Policy = s.policy.Name
	s.refusal = clearer(s.refusal, r)
}

// clearer returns b if it says more about the chain than a, else a: that it leads to no
// root says least, that a certificate has the name of a root but not its signature says
// more, and anything else is about a chain that leads to a root. Either may be nil.
func clearer(a, b *Refusal) *Refusal {
	rank := func(r *Refusal) int {
		switch {
		case r == nil:
			return 0
		case r.Reason == NoRoot:
			return 1
		case r.Reason == LinkBroken:
			return 2
		}
		return 3
	}
	if rank(b) > rank(a) {
		return b
	}
	return a
}

// check returns why a chain that ends in a root is refused, or nil.
func (s *search) check(chain []*certificate) *Refusal {
	root := len(chain) - 1
	if root > maxLinks {
		return &Refusal{Reason: LongChain}
	}
	for i, c := range chain[:root] {
		if !s.signed(c, chain[i+1]) {
			return &Refusal{Reason: LinkBroken, Where: place(i, root)}
		}
	}
	for i, c := range chain {
		reason := s.checkOne(c, i)
		if reason == "" && i < root && usesSHA1(c) && !s.policy.AllowSHA1 {
			reason = SHA1Certificate
		}
		if reason != "" {
			return &Refusal{Reason: reason, Where: place(i, root)}
		}
	}
	if s.sha1 && !s.policy.AllowSHA1 {
		return &Refusal{Reason: SHA1Signature}
	}
	return nil
}

// checkOne checks the certificate at place i of a chain, where the signer's is at 0. It
// returns "" or why it is refused. Its signature is for check.
func (s *search) checkOne(c *certificate, i int) Reason {
	minBits := cmp.Or(s.policy.MinKeyBits, 2048)
	const signing = x509.KeyUsageDigitalSignature | x509.KeyUsageContentCommitment
	switch {
	case c.critical:
		return Critical
	case s.policy.At.Before(c.from):
		return NotYetValid
	case s.policy.At.After(c.until):
		return Expired
	case c.key.N.BitLen() < minBits:
		return KeySize
	case i == 0 && c.usage != 0 && c.usage&signing == 0:
		return NotForSigning
	case i == 0:
		return ""
	case !c.isCA:
		return NotCA
	case c.usage != 0 && c.usage&x509.KeyUsageCertSign == 0:
		return NotForCerts
	case c.maxPath >= 0 && i-1 > c.maxPath:
		return PathLength
	}
	return ""
}

// signed reports whether the key of parent signed child.
func (s *search) signed(child, parent *certificate) bool {
	l := link{child, parent}
	good, known := s.links[l]
	if !known {
		good = child.hash != 0 &&
			rsa.VerifyPKCS1v15(parent.key, child.hash, sum(child.hash, child.signed), child.signature) == nil
		s.links[l] = good
	}
	return good
}

func usesSHA1(c *certificate) bool { return c.hash == crypto.SHA1 }

// place names the certificate at place i of a chain whose root is at place root.
func place(i, root int) string {
	switch i {
	case 0:
		return "signer"
	case root:
		return "root"
	}
	return fmt.Sprintf("issuer %d", i)
}
