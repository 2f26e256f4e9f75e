#pragma once
// One request and its response: frames the response and collects its log record and metrics.
//
// A response is either whole, respond(), or a stream: open_stream(), then send() any number of times, the
// last with Last::kYes. Both return false when the client can no longer be reached; the connection must then
// be closed.
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

/// The status logged for a request whose client disconnected before the response (nginx's convention).
inline constexpr int kClientLeft = 499;

class Exchange {
 public:
  /// `route` belongs to the route table; `lease` covers the request's body; `began_ns` is when its first byte
  /// arrived, by the steady clock.
  Exchange(ServerContext& context, Wire& wire, HttpRequest request, const Route& route, BodyLease lease,
           std::int64_t began_ns);

  const HttpRequest& request() const { return request_; }
  HttpRequest& request() { return request_; }
  /// Frees the body and its lease once the body has been parsed; a reply may take long.
  void drop_body();
  const Route& route() const { return route_; }
  const std::string& id() const { return record_.id; }
  ServerContext& context() { return context_; }
  Wire& wire() { return wire_; }
  RequestRecord& record() { return record_; }
  const traces::RequestTrace& trace() const { return trace_; }

  runtime::Task<bool> respond(HttpResponse response);
  runtime::Task<bool> refuse(Error error);

  enum class Last : bool { kNo, kYes };
  /// The head is sent with the first send().
  void open_stream(std::string_view content_type);
  bool stream_open() const { return stream_open_; }
  runtime::Task<bool> send(std::string data, Last last = Last::kNo);
  bool head_unsent() const { return !unsent_.empty(); }

  void close_after() { keep_alive_ = false; }
  bool keep_alive() const { return keep_alive_; }
  bool answered() const { return record_.status != 0; }

  /// After the wire's gone() was canceled or a write failed: returns true if the client is the cause, false
  /// if the server is shutting down.
  bool is_abandoned() const { return wire_.client_closed() || !context_.draining; }
  /// Ends an exchange that gets no answer; requires that no stream is open. Sends an error if the client is
  /// still connected.
  runtime::Task<bool> give_up();

  /// Logs and counts the request. Call once, at the end.
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
  bool streamed_ = false;
  traces::RequestTrace trace_;  // API calls only
  std::string unsent_;          // head of a stream, not sent yet
};

}  // namespace reprise::protocol
