#pragma once
// The completion token use_actor: lets a coroutine of an actor await Asio operations.
//
//   auto reading = socket.async_read_some(buffer(bytes_), use_actor);
//   Result<std::size_t> count = co_await reading;                       // resumes on the actor's executor
//
//   auto waiting = timer.async_wait(use_actor.with(deadline, cancel));  // limits as for an ask
//
// The operation starts when it is called with the token. Its outcome is a Result of void, of the one value,
// or of a tuple of the values. error::eof becomes kEnded, error::operation_aborted kCanceled, any other
// error kIo with Asio's text. Reaching a limit, or destroying the awaitable (the actor stops), emits a
// terminal cancellation on the operation's executor.
//
// Hazard: a canceled operation may use its buffers until it has completed. An actor on the same
// single-threaded io_context as its sockets (runtime/interop/asio_executor.h) is safe, because the cancellation takes
// effect before the coroutine frame is destroyed. Elsewhere buffers must outlive the operation: keep them in
// a shared_ptr that the completion owns.
//
// Threading: start and await within a turn; the I/O object's own rules also apply.

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/error.hpp>
#include <boost/system/error_code.hpp>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "runtime/ask.h"

namespace reprise::runtime {

class UseActor {
 public:
  constexpr UseActor() = default;
  UseActor with(TimePoint deadline, CancelToken cancel = {}) const {
    UseActor token;
    token.deadline = deadline;
    token.cancel = std::move(cancel);
    return token;
  }

  TimePoint deadline = TimePoint::max();
  CancelToken cancel{};
};
inline const UseActor use_actor{};

namespace asio_detail {

template <class... Args>
struct OutcomeOf {
  using Type = std::tuple<std::decay_t<Args>...>;
};
template <class Arg>
struct OutcomeOf<Arg> {
  using Type = std::decay_t<Arg>;
};
template <>
struct OutcomeOf<> {
  using Type = void;
};

inline Error to_error(const boost::system::error_code& code) {
  if (code == boost::asio::error::eof) return {ErrorCode::kEnded};
  if (code == boost::asio::error::operation_aborted) return {ErrorCode::kCanceled};
  return {ErrorCode::kIo, code.message()};
}

using SharedSignal = std::shared_ptr<boost::asio::cancellation_signal>;

template <class... Args>
struct Handler {
  using Outcome = typename OutcomeOf<Args...>::Type;
  using cancellation_slot_type = boost::asio::cancellation_slot;

  cancellation_slot_type get_cancellation_slot() const noexcept { return signal->slot(); }

  void operator()(boost::system::error_code code, Args... args) {
    if (code) {
      reply.answer(to_error(code));
    } else if constexpr (std::is_void_v<Outcome>) {
      reply.answer({});
    } else {
      reply.answer(Outcome(std::move(args)...));
    }
  }

  ReplyTo<Outcome> reply;
  SharedSignal signal;
};

/// An Ask that an Asio operation answers.
template <class Outcome>
class [[nodiscard]] Operation : public Ask<Outcome> {
 public:
  /// `start(reply, signal)` starts the operation and returns a function that emits the cancellation.
  template <class Start>
  Operation(const UseActor& token, Start&& start) {
    this->start(token.deadline, token.cancel, [&](ReplyTo<Outcome> reply) {
      emit_ = start(std::move(reply), std::make_shared<boost::asio::cancellation_signal>());
    });
  }
  ~Operation() override {
    if (!this->await_ready()) abort();
  }

 private:
  void give_up(ErrorCode why) override {
    abort();
    Ask<Outcome>::give_up(why);
  }
  void abort() {
    if (emit_) std::exchange(emit_, nullptr)();
  }

  std::function<void()> emit_;
};

/// Returns a function that cancels the operation on its executor; null if the initiation has no executor.
template <class Initiation>
std::function<void()> canceler(const Initiation& initiation, const SharedSignal& signal) {
  if constexpr (requires { initiation.get_executor(); }) {
    return [executor = initiation.get_executor(), signal] {
      boost::asio::dispatch(executor, [signal] { signal->emit(boost::asio::cancellation_type::terminal); });
    };
  } else {
    return nullptr;
  }
}

}  // namespace asio_detail

}  // namespace reprise::runtime

template <class... Args>
class boost::asio::async_result<reprise::runtime::UseActor, void(boost::system::error_code, Args...)> {
 public:
  template <class Initiation, class... InitArgs>
  static auto initiate(Initiation initiation, reprise::runtime::UseActor token, InitArgs&&... args) {
    using namespace reprise::runtime;
    using Handler = asio_detail::Handler<Args...>;
    using Outcome = typename Handler::Outcome;
    return asio_detail::Operation<Outcome>(
        token, [&](ReplyTo<Outcome> reply, const asio_detail::SharedSignal& signal) {
          std::function<void()> emit = asio_detail::canceler(initiation, signal);
          std::move(initiation)(Handler{std::move(reply), signal}, std::forward<InitArgs>(args)...);
          return emit;
        });
  }
};
