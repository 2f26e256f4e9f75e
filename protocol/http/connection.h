#pragma once
// One connection: reads requests and answers them, one after the other in the order they came, until the
// client closes, a limit is passed, or the server stops.
//
// Where all seats are taken a newcomer has that of a connection that waits for a request, or whose request still comes.
// Where there is none it gets a seat in the reserve, where one request is answered and nothing is waited for
// long.
//
// Threading: an actor on the server's loop.

#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <optional>
#include <string>

#include "protocol/http/exchange.h"
#include "protocol/http/gate.h"
#include "protocol/http/request_reader.h"
#include "protocol/http/sender_list.h"
#include "protocol/http/server_context.h"
#include "protocol/http/wire.h"
#include "runtime/actor.h"

namespace reprise::protocol {

/// Answer what is being answered, then close.
struct FinishConnection {};
/// Break off what is being answered, with an error.
struct AbortConnection {};

class Connection : public runtime::Actor, private Waiting, private SenderList::Entry {
 public:
  using Accepts = runtime::Messages<FinishConnection, AbortConnection>;
  static constexpr const char* kName = "http connection";

  Connection(boost::asio::ip::tcp::socket socket, Seat seat, const SenderNetwork& network,
             std::shared_ptr<ServerContext> context);
  ~Connection() override;

  void on_start();
  void on(FinishConnection);
  void on(AbortConnection);

 private:
  runtime::Task<void> serve();
  /// Until a request is whole, or only its head where that is enough to refuse it. False: nothing to answer.
  runtime::Task<bool> read_request();
  runtime::Task<bool> read_head_and_body();
  runtime::Task<bool> read_head();
  runtime::Task<bool> read_body();
  /// False: the connection is to be closed.
  runtime::Task<bool> answer(Exchange& exchange);
  void give_way() override;
  void stop_sending() override;
  /// Among those that wait or, when a request has begun to come, among those that send.
  void list(bool begun);
  WaitingList& waiting_list();

  const std::shared_ptr<ServerContext> context_;
  const Seat seat_;
  const SenderNetwork network_;
  Wire wire_;
  RequestReader reader_;
  std::int64_t head_began_ns_ = 0;   // of the request at hand, when its first byte was seen
  std::optional<BodyLease> lease_;   // of the body being read
  std::optional<ApiError> refusal_;  // of the request at hand
  bool idle_ = true;                 // no request that is to be answered has come
  bool finishing_ = false;
  bool stopped_sending_ = false;  // the request at hand is not read to its end
};

}  // namespace reprise::protocol
