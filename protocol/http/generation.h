#pragma once
// Answers one request to an API endpoint: has its body parsed, then answers the question or generates text.
//
// Threading: the connection's actor.

#include "protocol/http/exchange.h"
#include "protocol/http/key_ring.h"
#include "runtime/task.h"

namespace reprise::protocol {

/// Requires: the exchange's route has an endpoint. The tenant must outlive the task. Returns false if the
/// connection must be closed.
runtime::Task<bool> answer_call(Exchange& exchange, const Tenant& tenant);

}  // namespace reprise::protocol
