package extension_test

import (
	"fmt"
	"os"

	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/extension"
)

func ExampleCheck() {
	m, err := message.Parse([]byte(`{"messageType":"AReq","messageVersion":"2.2.0","messageExtension":[{"name":"Travel Industry",
		"id":"A000000802-002","criticalityIndicator":false,"data":{"air":{"airlineTicketInfo":{"ticketCount":"two"}}}}]}`), message.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range extension.Check(m) {
		fmt.Println(p.Code, p.Path)
	}
	// Output: 203 messageExtension[0].data.air.airlineTicketInfo.ticketCount
}

func ExampleDescribe() {
	m, err := message.Parse([]byte(`{"messageType":"ARes","messageVersion":"2.2.0","messageExtension":[{"name":"Bridging",
		"id":"A000000802-004","criticalityIndicator":false,"data":{"version":"2.0","addData":{"authenticationMethod":["02"]}}}]}`), message.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range extension.Describe(m) {
		if err := d.Write(os.Stdout); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// messageExtension[0]: Bridging 2.0: elements and values of 2.3.1 in messages of 2.2.0
	//   messageExtension[0].data.version: version of the extension: 2.0
	//   messageExtension[0].data.addData.authenticationMethod: challenge methods to be used: 02 (SMS OTP)
}

func ExampleBuild() {
	r, err := message.ReadRequest([]byte(`{"messageType":"AReq","messageVersion":"2.2.0","extensions":{"cbUseCase":"01"}}`), message.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, problems := extension.Build(r, extension.Target{Version: message.V220, Scheme: "cb", Channel: message.BRW})
	areq, _ := r.Build(message.Context{}) // lacks much, which does not matter here
	fmt.Println(len(problems), string(areq.Raw("messageExtension[0].data")))
	// Output: 0 {"A000000042_CB-USECASE":"01"}
}
