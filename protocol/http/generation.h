#pragma once
// Answers one request at an API's path: has its body parsed, and then the question answered, or the text generated.
//
// Threading: the connection's actor.

#include "protocol/http/exchange.h"
#include "protocol/http/key_ring.h"
#include "runtime/task.h"

namespace reprise::protocol {

/// The exchange's route must have an endpoint. The tenant must outlive the answer. False: the connection is to be closed.
runtime::Task<bool> answer_call(Exchange& exchange, const Tenant& tenant);

}  // namespace reprise::protocol
