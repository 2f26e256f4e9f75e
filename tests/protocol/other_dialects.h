#pragma once
// Two APIs that are nobody's, for tests of what another API needs of the server: one streams events with
// names and numbers as the APIs of agents do, the other JSON lines. Their requests, replies, signs of life,
// ends and errors have nothing in common with OpenAI's.
//
// Named: POST /named/say {"say": …, "stream": …, "tool"?: …}, POST /named/count {"say": …},
//        GET /named/things/{id}
// Lines: POST /lines {"say": …, "stream": …}
//
// Threading: pure functions.

#include "protocol/api/endpoint.h"

namespace reprise::protocol {

/// Both, beside OpenAI's own.
ApiTable other_dialects();

}  // namespace reprise::protocol
