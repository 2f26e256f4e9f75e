#pragma once
// llama-server's POST /slots/{id}?action=save|restore|erase, on named snapshots (protocol/named_snapshots.h): the file name
// becomes the snapshot's name.
//   save     names what the last request on the slot has computed, and pins its states
//   restore  brings the states of a name to the device, and makes it what the slot holds
//   erase    forgets what the slot holds; its name, if it was saved, stays
//
// Threading: immutable; any thread.

#include <memory>

#include "protocol/api/endpoint.h"
#include "protocol/named_snapshots.h"
#include "protocol/openai/slot_book.h"

namespace reprise::protocol::llama {

std::shared_ptr<const Endpoint> slot_endpoint(std::shared_ptr<NamedSnapshots> names,
                                              std::shared_ptr<openai::SlotBook> slots);

}  // namespace reprise::protocol::llama
