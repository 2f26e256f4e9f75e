#pragma once
// One request and its response: knows how the response is framed, and keeps the account of it.
//
// A response is either one piece, respond(), or a stream: open_stream(), then send() as often as needed, and
// once with Last::kYes. They answer false when the client cannot be reached any more; then the connection is
// to be closed.
//
// Threading: the connection's actor.

#include <optional>
#include <string>

#include "protocol/http/log.h"
#include "protocol/http/message.h"
#include "protocol/http/routes.h"
#include "protocol/http/server_context.h"
#include "protocol/http/wire.h"
#include "runtime/task.h"
#include "traces/request_trace.h"

namespace reprise::protocol {

/// The status in the log of a request whose client did not wait for one, as nginx has it.
inline constexpr int kClientLeft = 499;

class Exchange {
 public:
  /// `route` is the table's; `lease` is for the request's body; `began_ns`: when its first byte was seen, by the steady clock.
  Exchange(ServerContext& context, Wire& wire, HttpRequest request, const Route& route, BodyLease lease,
           std::int64_t began_ns);

  const HttpRequest& request() const { return request_; }
  HttpRequest& request() { return request_; }
  /// When the body has been read for what it says: it may be large, and a reply may take long.
  void drop_body();
  const Route& route() const { return route_; }
  const std::string& id() const { return record_.id; }
  ServerContext& context() { return context_; }
  Wire& wire() { return wire_; }
  /// For the log line at the end.
  RequestRecord& record() { return record_; }
  const traces::RequestTrace& trace() const { return trace_; }

  runtime::Task<bool> respond(HttpResponse response);
  /// In the shape of the route's API.
  runtime::Task<bool> refuse(ApiError error);

  enum class Last : bool { kNo, kYes };
  /// The head goes out with the first send().
  void open_stream(std::string_view content_type);
  bool stream_open() const { return stream_open_; }
  runtime::Task<bool> send(std::string data, Last last = Last::kNo);
  /// The head has not gone out yet.
  bool head_unsent() const { return !unsent_.empty(); }

  /// After this response no further request is read.
  void close_after() { keep_alive_ = false; }
  bool keep_alive() const { return keep_alive_; }
  bool answered() const { return record_.status != 0; }

  /// The wire's gone() was cancelled, or it took nothing: whether nobody is there to be answered. Else it is
  /// the server that cannot wait any longer.
  bool is_abandoned() const { return wire_.client_closed() || !context_.draining; }
  /// Where no stream is open: the end of an exchange of which there is no answer. Says so to who is there.
  runtime::Task<bool> give_up();

  /// Logs and counts. Once, at the end.
  void finish();

 private:
  bool keeps_alive() const;
  Headers common_headers() const;

  ServerContext& context_;
  Wire& wire_;
  HttpRequest request_;
  const Route& route_;
  BodyLease lease_;
  RequestRecord record_;
  const runtime::TimePoint begin_;
  const std::uint64_t written_before_;
  bool keep_alive_;
  bool stream_open_ = false;
  bool streamed_ = false;       // something has gone out
  traces::RequestTrace trace_;  // of calls of an API
  std::string unsent_;          // the head of a stream
};

}  // namespace reprise::protocol
