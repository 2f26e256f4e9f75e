#pragma once
// The interface between the server and an API: a Dialect formats errors, and an Endpoint serves one path. The
// HTTP layer knows only these; each API implements them in its own directory and lists its paths as ApiRoutes
// (all in protocol/apis.h).
//
//   bytes of a body --Endpoint::parse()--> GenerationCall --stream() or whole()--> Reply
//                                     \--> Question       --answer()-------------> a JSON body
//
// Errors before the first byte of a reply, in HTTP or in the engine, are formatted by error_answer(); errors
// in an open stream by StreamedReply::failed().
//
// Threading: dialects and endpoints are shared by all connections and parsing threads and must guard their
// state. Calls, questions and replies belong to one actor at a time.

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
    int status;  // the error's, unless the API maps it to another
    std::string body;
  };
  virtual ErrorAnswer error_answer(const Error& error) const = 0;
};
/// Formats errors as OpenAI does (error_envelope()); the default for APIs without a format of their own.
const Dialect& openai_dialect();

/// Converts the engine's events to the text that a client of an API receives. One object per request.
///
/// Calls follow the order of the engine's events (protocol/service.h): admitted() once and first, then
/// started() for each prompt, delta() and finished() for each choice, done() last. Each appends the bytes to
/// send to `out`, possibly none. A whole reply appends its body in done().
class Reply {
 public:
  Reply() = default;
  virtual ~Reply() = default;
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;

  /// `now`: seconds since 1970.
  virtual void admitted(const Admitted& event, std::int64_t now, std::string& out) = 0;
  /// Called before started(), for requests with want_progress.
  virtual void progress(const Progress&, std::string&) {}
  virtual void started(const Started& event, std::string& out) = 0;
  virtual void delta(Delta event, std::string& out) = 0;
  virtual void finished(const Finished& event, std::string& out) = 0;
  virtual void done(const Done& event, std::string& out) = 0;
  /// Called for embedding requests, instead of delta() and finished().
  virtual void embedded(Embedded, std::string&) {}
};

/// A reply sent while it grows. Two further calls may come at any time, even before admitted(): keep_alive(),
/// when nothing was sent for a while, and failed(), the last call. It writes only whole events, and appends
/// the end mark of its stream, if the API has one, in done() or failed().
class StreamedReply : public Reply {
 public:
  /// Returns a literal, e.g. "text/event-stream; charset=utf-8".
  virtual std::string_view content_type() const = 0;
  /// May append nothing if the API has no such mark.
  virtual void keep_alive(std::string& out) = 0;
  virtual void failed(const Error& error, std::string& out) = 0;
};

struct ReplyContext {
  std::string id{};             // 32 random hex digits, unique per request
  ChatFormatPtr chat{};         // the model's; null: it has none, and replies are plain text
  ReplyParserOptions parser{};  // for chats; parser_of() sets prompt_tail and id_seed

  /// Returns a parser for the text of one choice of a chat.
  ReplyParser parser_of(std::uint32_t choice, const Started& started) const;
};

class GenerationCall {
 public:
  explicit GenerationCall(ApiRequest asked) : request(std::move(asked)) {}
  virtual ~GenerationCall() = default;
  GenerationCall(const GenerationCall&) = delete;
  GenerationCall& operator=(const GenerationCall&) = delete;

  /// Call one of the two, once: stream() if request.stream is set, else whole(). `request` may have been
  /// moved from.
  virtual std::unique_ptr<StreamedReply> stream(ReplyContext context) = 0;
  virtual std::unique_ptr<Reply> whole(ReplyContext context) = 0;

  ApiRequest request;
};

/// Any other request, answered in one piece.
class Question {
 public:
  Question() = default;
  virtual ~Question() = default;
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

  using Answered = Outcome<std::string, Error>;  // a JSON body
  /// Call once, within an actor's turn (it uses asks).
  virtual runtime::Task<Answered> answer(Service& service) = 0;

  std::vector<std::string> unknown_fields{};  // added to the answer (field_rules.h)
  /// Returns true for text work (tokenizing, rendering), which counts towards the tenant's limits.
  virtual bool is_text_work() const { return false; }

  TextCaller caller{};  // for text work; set before answer()
};

using ParsedCall = std::variant<Error, std::unique_ptr<GenerationCall>, std::unique_ptr<Question>>;

struct ApiInput {
  std::string_view body;
  std::string_view path_end{};    // the part that matched {…} in the route's path, percent-decoded
  std::string_view query{};       // see query_value()
  std::string_view cache_salt{};  // from query or header, for methods without a body
  std::string_view tenant{};      // empty: the server has no keys
  bool deletes = false;           // the method was DELETE, on a kGetDelete route
};

class Endpoint {
 public:
  virtual ~Endpoint() = default;

  virtual const Dialect& dialect() const = 0;
  /// May be called from any thread. May throw BadRequest.
  virtual ParsedCall parse(const ApiInput& input, const BodyLimits& limits) const = 0;
};

enum class HttpMethod : std::uint8_t { kGet, kPost, kGetDelete };  // GET includes HEAD

/// An endpoint's method, path and access rules. A path may have one route per method.
struct ApiRoute {
  HttpMethod method = HttpMethod::kPost;
  std::string path;  // e.g. "/v1/models/{id}"; {…}: one or more characters, at the end only
  std::shared_ptr<const Endpoint> endpoint;
  bool generates = false;  // counts as a running request, and is logged
  bool is_public = false;
  bool for_operators = false;  // needs an operator's key, if there are keys
};

struct ApiTable {
  std::vector<ApiRoute> routes{};
  const Dialect* elsewhere = nullptr;  // formats errors at unknown paths; outlives the table
};

}  // namespace reprise::protocol
