package message_test

import (
	"fmt"
	"os"

	"github.com/openthreeds/threeds/message"
)

func ExampleParse() {
	m, err := message.Parse([]byte(`{"messageType":"RRes","messageVersion":"2.2.0","resultsStatus":"01"}`), message.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	version, _ := m.Version()
	fmt.Println(version, m.Text("resultsStatus"))
	// Output: 2.2.0 01
}

func ExampleMessage_Check() {
	m, err := message.Parse([]byte(`{"messageType":"RRes","messageVersion":"2.2.0","resultsStatus":"1"}`), message.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range m.Check(message.Context{}) {
		fmt.Println(p.Code, p.Path.Name())
	}
	// Output:
	// 201 acsTransID
	// 201 dsTransID
	// 203 resultsStatus
	// 201 threeDSServerTransID
}

func ExampleMessage_Describe() {
	m, err := message.Parse([]byte(`{"messageType":"AReq","messageVersion":"2.2.0","acctNumber":"4000000000000002"}`), message.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := m.Describe(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// messageType..... AReq
	// messageVersion.. 2.2.0
	// acctNumber...... 400000******0002
}

func ExampleCompose() {
	b, err := message.Compose(message.RRes, message.V220,
		message.Member{Name: "resultsStatus", Text: "01"},
		message.Member{Name: "dsTransID", Text: "f25084f0-5b16-4c0a-ae5d-b24808a95e4b"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", b)
	// Output: {"dsTransID":"f25084f0-5b16-4c0a-ae5d-b24808a95e4b","messageType":"RRes","messageVersion":"2.2.0","resultsStatus":"01"}
}

func ExampleNewTable() {
	score := message.NewTable("score",
		message.Field{Need: "RR RR RR", Name: "value", Kind: message.Digits, Max: 3, Doc: "score of the risk"},
		message.Field{Name: "reason", Max: 40, Doc: "why"})
	m, err := message.Parse([]byte(`{"messageExtension":[{"data":{"value":"1000","reason":"new device"}}]}`), message.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	const path = "messageExtension[0].data"
	for _, p := range m.CheckObject(path, score) {
		fmt.Println(p.Code, p.Path)
	}
	m.DescribeObject(path, score, func(path message.Path, f *message.Field, text string) {
		fmt.Printf("%s (%s): %s\n", path, f.Doc, text)
	})
	// Output:
	// 203 messageExtension[0].data.value
	// messageExtension[0].data.value (score of the risk): ***
	// messageExtension[0].data.reason (why): new device
}

func ExampleProblems_Err() {
	m, err := message.Parse([]byte(`{"messageType":"Erro","messageVersion":"2.2.0"}`), message.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Check(message.Context{}).Err())
	// Output: message: 201 errorCode, 201 errorComponent, 201 errorDescription, 201 errorDetail
}
