#pragma once
// Writing an actor.
//
//   class Counter : public Actor {
//    public:
//     using Accepts = Messages<Add, Total>;
//     void on(Add add) { sum_ += add.amount; }
//     int on(Total) { return sum_; }
//    private:
//     int sum_ = 0;
//   };
//
// A handler is `on(M)`, with M by value, const reference or rvalue reference, and returns
//   void, Task<void>          for a message that is told
//   Reply, Task<Reply>        for a question, or Result<Reply> of either where it may fail; or it takes ReplyTo<Reply>
//                             as second parameter, returns void or Task<void>, and answers when it likes
// Work that goes on for long is launch()ed: a suspended handler counts as undone when the system stops.
// Turns never overlap. What a class may declare besides:
//   static constexpr MailboxSpec kMailbox{...}               capacity and overload policy (runtime/mailbox.h)
//   static constexpr std::uint32_t kConcurrentHandlers = n   how many coroutine handlers may be suspended at once, 1 by
//                                                            default: the next message waits until the handler has
//                                                            ended (a serial actor). With more, the actor is
//                                                            re-entrant: its state may change at every co_await.
//   static constexpr const char* kName = "..."               for people and the profiler; the type's name by default
//   void on_start() / Task<void> on_start()                  first turn, on the home; messages wait until it has ended
//   void on_stop()                                           last turn of an orderly stop; not called after a failure
// An exception that leaves any of these fails the actor (runtime/supervision.h).
//
// Threading: the constructor runs on the spawner's thread, everything else on the actor's home. A constructor
// only stores its arguments: what needs the actor's reference, children or turns belongs into on_start().

#include "runtime/actor_class.h"
#include "runtime/dispatch.h"
#include "runtime/spawn.h"
