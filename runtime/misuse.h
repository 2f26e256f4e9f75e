#pragma once
// Readable compile errors for wrong use of the runtime.
//
// These types are declared but never defined. A message that cannot be sent or handled instantiates one of
// them, so the error names the reason and the message in one line, and a note shows the declaration below. A
// rejected send also reports its failed `requires`.

namespace reprise::runtime {

template <class Message, class... Taken>
struct ActorDoesNotTake;  // the Ref does not send Message, only the messages in Taken...

template <class Message>
struct MessageHasNoReply;  // only a message with `using Reply = ...` can be asked

template <class ActorClass, class Message>
struct ActorHasNoHandlerFor;  // Accepts lists the message, but the class has no public on() for it

template <class ActorClass, class Message, class Returned>
struct HandlerReturnsNoReplyTo;  // on() returns Returned, which is not convertible to the message's Reply

template <class ActorClass, class Message, class Returned>
struct HandlerWithReplyToReturns;  // on() takes ReplyTo, so it must return void or Task<void>

/// Stops compilation with an error that names `Why`, one of the types above.
template <class Why>
constexpr void misuse() {
  static_cast<void>(Why{});
}

}  // namespace reprise::runtime
