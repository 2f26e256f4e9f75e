#include "protocol/call_reader.h"

#include "protocol/json_call_reader.h"
#include "protocol/named_call_reader.h"
#include "protocol/python_call_reader.h"
#include "protocol/xml_call_reader.h"
#include "traces/check.h"

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
  REPRISE_CHECK(false, "a format without calls has no reader");
  return nullptr;
}

}  // namespace reprise::protocol
