#include "protocol/reply/call_reader.h"

#include "base/check.h"
#include "protocol/reply/json_call_reader.h"
#include "protocol/reply/named_call_reader.h"
#include "protocol/reply/python_call_reader.h"
#include "protocol/reply/xml_call_reader.h"

namespace reprise::protocol {

std::unique_ptr<CallReader> make_call_reader(const ReplyFormat& format, const ToolSchemas& tools) {
  switch (format.calls) {
    case ReplyFormat::Calls::kNone:
      break;
    case ReplyFormat::Calls::kJson:
      return std::make_unique<JsonCallReader>(format.call_close, false, tools);
    case ReplyFormat::Calls::kBareJson:
      return std::make_unique<JsonCallReader>("", true, tools);
    case ReplyFormat::Calls::kXml:
      return std::make_unique<XmlCallReader>(format.call_close, tools);
    case ReplyFormat::Calls::kNamed:
      return std::make_unique<NamedCallReader>(format);
    case ReplyFormat::Calls::kPython:
      return std::make_unique<PythonCallReader>(format.call_close, tools);
  }
  REPRISE_CHECK(false, "a call was read in a format without calls");
  return nullptr;
}

}  // namespace reprise::protocol
