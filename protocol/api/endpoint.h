#pragma once
// What an API is to the server: a Dialect, which says how its errors look, and Endpoints, each of which
// answers at a path. HTTP knows these alone; an API implements them in a folder of its own and names its
// paths in a list of ApiRoute (protocol/apis.h has them all).
//
//   bytes of a body --Endpoint::parse()--> GenerationCall --stream() or whole()--> Reply
//                                     \--> Question       --answer()-------------> a JSON body
//
// What goes wrong before the first byte of a reply, in HTTP or in the engine, is told by error_answer(); what
// goes wrong in an open stream by StreamedReply::failed().
//
// Threading: dialects and endpoints are shared by all connections and parsing threads: what they keep they
// guard. Calls, questions and replies belong to one actor at a time.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/outcome.h"
#include "protocol/api/api_error.h"
#include "protocol/api/api_request.h"
#include "protocol/api/body_limits.h"
#include "protocol/chat/chat_format.h"
#include "protocol/reply/reply_parser.h"
#include "protocol/service.h"
#include "runtime/task.h"

namespace reprise::protocol {

class Dialect {
 public:
  virtual ~Dialect() = default;

  struct ErrorAnswer {
    int status;  // the error's own, unless the API has another for it
    std::string body;
  };
  virtual ErrorAnswer error_answer(const ApiError& error) const = 0;
};
/// How OpenAI tells errors (error_envelope()), and every API that has no way of its own.
const Dialect& openai_dialect();

/// The engine's events as the text that a client of some API gets. One object for each request.
///
/// The calls come in the order of the engine's events (protocol/service.h): admitted() once and first, then
/// started() for each prompt, delta() and finished() for each choice, done() last. Each appends what is to be
/// sent now to `out`, or nothing. Of a reply in one piece that is the body, in done().
class Reply {
 public:
  Reply() = default;
  virtual ~Reply() = default;
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;

  /// `now` in seconds since 1970.
  virtual void admitted(const Admitted& event, std::int64_t now, std::string& out) = 0;
  /// Of a request with want_progress, before started().
  virtual void progress(const Progress&, std::string&) {}
  virtual void started(const Started& event, std::string& out) = 0;
  virtual void delta(Delta event, std::string& out) = 0;
  virtual void finished(const Finished& event, std::string& out) = 0;
  virtual void done(const Done& event, std::string& out) = 0;
  /// Of a request for embeddings, in the place of delta() and finished().
  virtual void embedded(Embedded, std::string&) {}
};

/// A reply that is sent as it grows. It has two calls more, which may come at any place, also before
/// admitted(): keep_alive(), where the client has seen nothing for a while, and failed(), after which nothing
/// comes. It writes whole events only, and ends its stream itself, in done() or failed(), where its API has a
/// mark for that.
class StreamedReply : public Reply {
 public:
  /// A literal: "text/event-stream; charset=utf-8".
  virtual std::string_view content_type() const = 0;
  /// May append nothing where the API has no way to say it.
  virtual void keep_alive(std::string& out) = 0;
  virtual void failed(const ApiError& error, std::string& out) = 0;
};

/// What a reply is made with.
struct ReplyContext {
  std::string id{};             // 32 hex digits at random, that no other request has
  ChatFormatPtr chat{};         // the model's; null: it has none, and its replies are plain text
  ReplyParserOptions parser{};  // of a chat; prompt_tail and id_seed are left to parser_of()

  /// For the text of one choice of a chat.
  ReplyParser parser_of(std::uint32_t choice, const Started& started) const;
};

/// A request for text, and how its client wants it.
class GenerationCall {
 public:
  explicit GenerationCall(ApiRequest asked) : request(std::move(asked)) {}
  virtual ~GenerationCall() = default;
  GenerationCall(const GenerationCall&) = delete;
  GenerationCall& operator=(const GenerationCall&) = delete;

  /// One of the two, once; the first where request.stream is set. The request may have been moved from.
  virtual std::unique_ptr<StreamedReply> stream(ReplyContext context) = 0;
  virtual std::unique_ptr<Reply> whole(ReplyContext context) = 0;

  ApiRequest request;
};

/// Anything else that is asked: answered in one piece.
class Question {
 public:
  Question() = default;
  virtual ~Question() = default;
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

  using Answered = Outcome<std::string, ApiError>;  // a JSON body
  /// Once. Belongs to an actor's turn, as asks do.
  virtual runtime::Task<Answered> answer(Service& service) = 0;

  std::vector<std::string> unknown_fields{};  // of the body, added to the answer (field_rules.h)
  /// Whether it is work on texts: tokenising, rendering. That counts towards its tenant's limits.
  virtual bool is_text_work() const { return false; }

  TextCaller caller{};  // for text work; set before answer()
};

using ParsedCall = std::variant<ApiError, std::unique_ptr<GenerationCall>, std::unique_ptr<Question>>;

struct ApiInput {
  std::string_view body;
  std::string_view path_end{};    // what stands in the place of a path's {…}, with %xx decoded
  std::string_view query{};       // of the target: query_value()
  std::string_view cache_salt{};  // of the query or the header, for methods without a body
  std::string_view tenant{};      // empty: the server has no keys
  bool deletes = false;           // the method was DELETE, at a path of kGetDelete
};

class Endpoint {
 public:
  virtual ~Endpoint() = default;

  virtual const Dialect& dialect() const = 0;
  /// Any thread. May throw BadRequest.
  virtual ParsedCall parse(const ApiInput& input, const BodyLimits& limits) const = 0;
};

enum class HttpMethod : std::uint8_t { kGet, kPost, kGetDelete };  // where GET is taken, HEAD is as well

/// Where an endpoint is found, and how it is looked after. A path may have one for each method.
struct ApiRoute {
  HttpMethod method = HttpMethod::kPost;
  std::string path;  // "/v1/models/{id}": {…} stands for one or more characters, at the end alone
  std::shared_ptr<const Endpoint> endpoint;
  bool generates = false;      // counts among the requests that are answered at once, and is logged
  bool is_public = false;      // needs no key
  bool for_operators = false;  // where there are keys, needs an operator's
};

/// All that a server answers beside its own pages.
struct ApiTable {
  std::vector<ApiRoute> routes{};
  const Dialect* elsewhere = nullptr;  // for errors at paths that are nobody's; outlives the table
};

}  // namespace reprise::protocol
