#pragma once
// What a compiler says to code that uses the runtime wrongly.
//
// These types are never defined. Where a message cannot be sent or handled, the one that says why is needed as if it
// were: the error has its name, and with it the message's, in one line, and the line of its declaration below comes as
// a note. A send that is refused so is refused for `requires` as well.

namespace reprise::runtime {

template <class Message, class... Taken>
struct ActorDoesNotTake;  // this reference sends the messages named behind the first one, and not that one

template <class Message>
struct MessageHasNoReply;  // only a message that names its answer's type (`using Reply = ...`) can be asked

template <class ActorClass, class Message>
struct ActorHasNoHandlerFor;  // the class lists the message in Accepts, and has no public on() that takes it

template <class ActorClass, class Message, class Returned>
struct HandlerReturnsNoReplyTo;  // its on() returns what is named last, which is no Reply of the message

template <class ActorClass, class Message, class Returned>
struct
    HandlerWithReplyToReturns;  // its on() takes ReplyTo: it answers by that and returns void or Task<void>

/// Stops the compilation with the name of `Why`, one of the above.
template <class Why>
constexpr void misuse() {
  static_cast<void>(Why{});
}

}  // namespace reprise::runtime
