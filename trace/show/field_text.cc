#include "trace/show/field_text.h"

namespace plumb {

std::string_view base_prefix(const Step& step) {
    return step.base == 16 ? "0x" : step.base == 8 ? "0" : step.base == 2 ? "0b" : "";
}

const Step* list_of(const EventInfo& info) {
    if (info.name != "syscall_entry_execve" && info.name != "syscall_entry_execveat") return nullptr;
    for (const Step& step : info.fields.steps)
        if (step.kind == StepKind::string && step.name == "argv") return &step;
    return nullptr;
}

void put_list(OutputBuffer& out, std::string_view list) {
    const std::string text = escaped(list);
    for (std::size_t at = 0; at < text.size(); at++) {
        const bool is_escape = text[at] == '\\' && at + 1 < text.size();
        if (is_escape && (text[at + 1] == '"' || text[at + 1] == '\\'))
            at++;
        else if (is_escape)
            out.put(text[at++]);
        out.put(text[at]);
    }
}

StepPieces make_pieces(const Plan& plan, const Colors& colors, const Step* list) {
    StepPieces pieces;
    pieces.reserve(plan.steps.size());
    for (const Step& step : plan.steps) {
        std::string text = ", ";
        if (!step.name.empty()) text += fmt::format("{}{}{} = ", colors.name, escaped(step.name), colors.end);
        if (step.kind == StepKind::integer && step.labels == nullptr) text += base_prefix(step);
        if (step.kind == StepKind::array) text += '[';
        if (step.kind == StepKind::structure) text += '{';
        if (step.kind == StepKind::string || step.kind == StepKind::text)
            text += fmt::format("{}{}", colors.text, &step == list ? "" : "\"");
        pieces.emplace_back(text);
    }
    return pieces;
}

} // namespace plumb
