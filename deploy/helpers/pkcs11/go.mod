module github.com/openthreeds/threeds/deploy/helpers/pkcs11

go 1.26.0

require github.com/miekg/pkcs11 v1.1.2
