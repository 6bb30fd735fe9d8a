#!/usr/bin/env python3
"""Writes instructions.ptx: one kernel per form of an instruction, k0, k1, ..., each over 512 triples of operands.

Usage: generate.py > instructions.ptx
A kernel takes (a, b, c, out): arrays of 512 64-bit words. instructions.gold holds what an H200 made of the operands that
record.cc and instructions_test.cc both compute; record.cc writes it.
"""

HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n"
REG = {8: "q", 4: "r", 2: "h"}
SIZES = {"u16": 2, "s16": 2, "b16": 2, "u32": 4, "s32": 4, "b32": 4, "u64": 8, "s64": 8, "b64": 8, "f16": 2, "bf16": 2,
         "f32": 4, "f64": 8, "f16x2": 4, "bf16x2": 4, "u16x2": 4, "s16x2": 4, "u8": 4, "s8": 4, "pred": 0}
forms = []


def reg(type_name, which):
    return f"%{REG[SIZES[type_name]]}{which}"


def op(opcode, result, *operands, extra=""):
    """opcode d, a, b, c with registers of the named types; `extra` is appended as it is."""
    args = [reg(t, "abc"[i]) for i, t in enumerate(operands)]
    if result == "pred":
        text = f"{opcode} %p1, {', '.join(args)}{extra};\n\tselp.b32 %rd, 1, 0, %p1;\n\tcvt.u64.u32 %qd, %rd;"
    else:
        size = SIZES[result]
        text = f"{opcode} {reg(result, 'd')}, {', '.join(args)}{extra};"
        if size == 4:
            text += "\n\tcvt.u64.u32 %qd, %rd;"
        if size == 2:
            text += "\n\tcvt.u64.u16 %qd, %hd;"
    forms.append(text)


def holds(d, s):
    """Every value of s is one of d: .sat is not allowed then."""
    db, sb = int(d[1:]), int(s[1:])
    return (d[0] == s[0] and db >= sb) or (d[0] == "s" and s[0] == "u" and db > sb)


def build():
    for t in ["u16", "s16", "u32", "s32", "u64", "s64"]:
        for o in ["add", "sub", "mul.lo", "mul.hi", "min", "max"]:
            op(f"{o}.{t}", t, t, t)
        op(f"mad.lo.{t}", t, t, t, t)
        op(f"mad.hi.{t}", t, t, t, t)
        op(f"sad.{t}", t, t, t, t)
        op(f"shr.{t}", t, t, "u32")
        if t[0] == "s":
            op(f"abs.{t}", t, t)
            op(f"neg.{t}", t, t)
        for c in ["eq", "ne", "lt", "le", "gt", "ge"]:
            op(f"setp.{c}.{t}", "pred", t, t)
    for t in ["u16", "s16", "u32", "s32"]:
        wide = t[0] + str(int(t[1:]) * 2)
        op(f"mul.wide.{t}", wide, t, t)
        op(f"mad.wide.{t}", wide, t, t, wide)
    for t in ["u32", "s32", "u64", "s64"]:
        forms.append(f"or.b{t[1:]} {reg(t, 'b')}, {reg(t, 'b')}, 1;\n\tdiv.{t} {reg(t, 'd')}, {reg(t, 'a')}, {reg(t, 'b')};" + ("\n\tcvt.u64.u32 %qd, %rd;" if t[1:] == "32" else ""))
        forms.append(f"or.b{t[1:]} {reg(t, 'b')}, {reg(t, 'b')}, 1;\n\trem.{t} {reg(t, 'd')}, {reg(t, 'a')}, {reg(t, 'b')};" + ("\n\tcvt.u64.u32 %qd, %rd;" if t[1:] == "32" else ""))
        op(f"bfe.{t}", t, t, "u32", "u32")
        op(f"bfind.{t}", "u32", t)
        op(f"bfind.shiftamt.{t}", "u32", t)
    for t in ["b16", "b32", "b64"]:
        for o in ["and", "or", "xor"]:
            op(f"{o}.{t}", t, t, t)
        op(f"not.{t}", t, t)
        op(f"cnot.{t}", t, t)
        op(f"shl.{t}", t, t, "u32")
    for t in ["b32", "b64"]:
        op(f"popc.{t}", "u32", t)
        op(f"clz.{t}", "u32", t)
        op(f"brev.{t}", t, t)
        forms.append(f"shr.u32 %rd, %rc, 8;\n\tbfi.{t} {reg(t, 'd')}, {reg(t, 'a')}, {reg(t, 'b')}, %rc, %rd;" + ("\n\tcvt.u64.u32 %qd, %rd;" if t == "b32" else ""))
    for m in ["", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"]:
        op(f"prmt.b32{m}", "b32", "b32", "b32", "b32")
    for d in ["l", "r"]:
        for m in ["wrap", "clamp"]:
            op(f"shf.{d}.{m}.b32", "b32", "b32", "b32", "b32")
    for table in [0xE8, 0x96, 0x1B, 0xCA]:
        op("lop3.b32", "b32", "b32", "b32", "b32", extra=f", {table}")
    for m in ["clamp", "wrap"]:
        op(f"bmsk.{m}.b32", "b32", "b32", "b32")
        op(f"szext.{m}.s32", "s32", "s32", "u32")
        op(f"szext.{m}.u32", "u32", "u32", "u32")
    op("add.sat.s32", "s32", "s32", "s32")
    op("sub.sat.s32", "s32", "s32", "s32")
    op("mad.hi.sat.s32", "s32", "s32", "s32", "s32")
    op("min.relu.s32", "s32", "s32", "s32")
    for t in ["u32", "s32"]:
        for part in ["lo", "hi"]:
            op(f"mul24.{part}.{t}", t, t, t)
            op(f"mad24.{part}.{t}", t, t, t, t)
        for u in ["u32", "s32"]:
            op(f"dp4a.{t}.{u}", "b32", "b32", "b32", "b32")
            op(f"dp2a.lo.{t}.{u}", "b32", "b32", "b32", "b32")
            op(f"dp2a.hi.{t}.{u}", "b32", "b32", "b32", "b32")
    for t in ["u16x2", "s16x2"]:
        for o in ["add", "min", "max"]:
            op(f"{o}.{t}", t, t, t)
    forms.append("add.cc.u32 %rd, %ra, %rb;\n\taddc.cc.u32 %rd, %rb, %rc;\n\taddc.u32 %ra, %rd, 5;\n\tmov.b64 %qd, {%rd, %ra};")
    forms.append("sub.cc.u32 %rd, %ra, %rb;\n\tsubc.cc.u32 %rd, %rb, %rc;\n\tsubc.u32 %ra, %rd, 5;\n\tmov.b64 %qd, {%rd, %ra};")
    forms.append("sub.cc.u64 %qd, %qa, %qb;\n\tsubc.u64 %qd, %qb, %qc;")
    forms.append("mad.lo.cc.u32 %rd, %ra, %rb, %rc;\n\tmadc.hi.u32 %ra, %ra, %rb, %rc;\n\tmov.b64 %qd, {%rd, %ra};")
    forms.append("mad.hi.cc.s32 %rd, %ra, %rb, %rc;\n\tmadc.lo.cc.s32 %ra, %ra, %rb, %rc;\n\taddc.u32 %ra, %ra, 0;\n\tmov.b64 %qd, {%rd, %ra};")
    for n in [-40, -2, -1, 0, 1, 3, 31]:
        forms.append(f"and.b32 %rb, %rb, 31;\n\tfns.b32 %rd, %ra, %rb, {n};\n\tcvt.u64.u32 %qd, %rd;")
    for m in ["", ".ftz"]:
        for r in [".rn", ".rz", ".rm", ".rp"]:
            for s in ["", ".sat"]:
                op(f"add{r}{m}{s}.f32", "f32", "f32", "f32")
                op(f"mul{r}{m}{s}.f32", "f32", "f32", "f32")
                op(f"fma{r}{m}{s}.f32", "f32", "f32", "f32", "f32")
            op(f"sub{r}{m}.f32", "f32", "f32", "f32")
            op(f"div{r}{m}.f32", "f32", "f32", "f32")
            op(f"rcp{r}{m}.f32", "f32", "f32")
            op(f"sqrt{r}{m}.f32", "f32", "f32")
        op(f"min{m}.f32", "f32", "f32", "f32")
        op(f"max{m}.NaN.f32", "f32", "f32", "f32")
        op(f"max{m}.f32", "f32", "f32", "f32")
        op(f"neg{m}.f32", "f32", "f32")
        op(f"abs{m}.f32", "f32", "f32")
        for c in ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]:
            op(f"setp.{c}{m}.f32", "pred", "f32", "f32")
        op(f"set.lt{m}.u32.f32", "u32", "f32", "f32")
        op(f"set.gtu{m}.f32.f32", "f32", "f32", "f32")
        op(f"slct{m}.u32.f32", "u32", "u32", "u32", "f32")
    op("min.xorsign.abs.f32", "f32", "f32", "f32")
    op("max.NaN.xorsign.abs.f32", "f32", "f32", "f32")
    op("slct.u64.s32", "u64", "u64", "u64", "s32")
    op("copysign.f32", "f32", "f32", "f32")
    op("copysign.f64", "f64", "f64", "f64")
    for r in [".rn", ".rz", ".rm", ".rp"]:
        for o in ["add", "sub", "mul", "div"]:
            op(f"{o}{r}.f64", "f64", "f64", "f64")
        op(f"fma{r}.f64", "f64", "f64", "f64", "f64")
        op(f"rcp{r}.f64", "f64", "f64")
        op(f"sqrt{r}.f64", "f64", "f64")
    for o in ["min", "max"]:
        op(f"{o}.f64", "f64", "f64", "f64")
    for c in ["eq", "lt", "ltu", "neu", "nan", "num"]:
        op(f"setp.{c}.f64", "pred", "f64", "f64")
    for t in ["f32", "f64"]:
        for k in ["finite", "infinite", "number", "notanumber", "normal", "subnormal"]:
            op(f"testp.{k}.{t}", "pred", t)
    for t in ["f16", "f16x2", "bf16", "bf16x2"]:
        for o in ["add", "sub", "mul"]:
            op(f"{o}.rn.{t}" if t[0] == "b" else f"{o}.{t}", t, t, t)
        op(f"fma.rn.{t}", t, t, t, t)
        op(f"fma.rn.relu.{t}", t, t, t, t)
        op(f"neg.{t}", t, t)
        op(f"abs.{t}", t, t)
        for o in ["min", "max", "min.NaN", "max.NaN", "min.xorsign.abs", "max.NaN.xorsign.abs"]:
            op(f"{o}.{t}", t, t, t)
        if t in ("f16", "f16x2"):
            for o in ["add.ftz", "mul.ftz.sat", "sub.sat", "min.ftz", "add.sat"]:
                op(f"{o}.{t}", t, t, t)
            op(f"fma.rn.ftz.sat.{t}", t, t, t, t)
        for c in ["eq", "ne", "lt", "geu", "nan"]:
            if t in ("f16", "bf16"):
                op(f"setp.{c}.{t}", "pred", t, t)
                op(f"set.{c}.u32.{t}", "u32", t, t)
            else:
                op(f"set.{c}.{t}.{t}", t, t, t)
                op(f"set.{c}.u32.{t}", "u32", t, t)
                forms.append(f"setp.{c}.{t} %p1|%p2, %ra, %rb;\n\tselp.b32 %rd, 1, 0, %p1;\n\tselp.b32 %ra, 2, 0, %p2;\n\tor.b32 %rd, %rd, %ra;\n\tcvt.u64.u32 %qd, %rd;")
    integers = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]
    for d in integers:
        for s in integers:
            if d == s:
                continue
            op(f"cvt.{d}.{s}", d, s)
            if not holds(d, s):
                op(f"cvt.sat.{d}.{s}", d, s)
    for i in integers:
        for f in ["f16", "f32", "f64"]:
            for r in ["rni", "rzi", "rmi", "rpi"]:
                op(f"cvt.{r}.{i}.{f}", i, f)
            for r in ["rn", "rz", "rm", "rp"]:
                op(f"cvt.{r}.{f}.{i}", f, i)
        op(f"cvt.rzi.ftz.{i}.f32", i, "f32")
        op(f"cvt.rzi.sat.{i}.f32", i, "f32")
    for r in ["rn", "rz", "rm", "rp"]:
        op(f"cvt.{r}.f32.f64", "f32", "f64")
        op(f"cvt.{r}.ftz.f32.f64", "f32", "f64")
        op(f"cvt.{r}.f16.f32", "f16", "f32")
        op(f"cvt.{r}.f16.f64", "f16", "f64")
    for r in ["rni", "rzi", "rmi", "rpi"]:
        op(f"cvt.{r}.f32.f32", "f32", "f32")
        op(f"cvt.{r}.ftz.sat.f32.f32", "f32", "f32")
        op(f"cvt.{r}.f64.f64", "f64", "f64")
        op(f"cvt.{r}.f16.f16", "f16", "f16")
    op("cvt.f64.f32", "f64", "f32")
    op("cvt.ftz.f64.f32", "f64", "f32")
    op("cvt.f32.f16", "f32", "f16")
    op("cvt.f64.f16", "f64", "f16")
    op("cvt.f32.bf16", "f32", "bf16")
    op("cvt.sat.f32.f32", "f32", "f32")
    op("cvt.rn.sat.f16.f32", "f16", "f32")
    op("cvt.rn.relu.f16.f32", "f16", "f32")
    for r in ["rn", "rz"]:
        op(f"cvt.{r}.bf16.f32", "bf16", "f32")
        op(f"cvt.{r}.f16x2.f32", "f16x2", "f32", "f32")
        op(f"cvt.{r}.bf16x2.f32", "bf16x2", "f32", "f32")
        op(f"cvt.{r}.relu.bf16x2.f32", "bf16x2", "f32", "f32")
    op("cvt.rna.tf32.f32", "b32", "f32")
    for e in ["e4m3x2", "e5m2x2"]:
        op(f"cvt.rn.satfinite.{e}.f32", "b16", "f32", "f32")
        op(f"cvt.rn.satfinite.relu.{e}.f32", "b16", "f32", "f32")
        op(f"cvt.rn.satfinite.{e}.f16x2", "b16", "f16x2")
        op(f"cvt.rn.f16x2.{e}", "f16x2", "b16")
        op(f"cvt.rn.relu.f16x2.{e}", "f16x2", "b16")
    for m in ["up", "down", "bfly", "idx"]:
        for c in [0x1F, 0x0, 0x181F, 0x100F]:
            forms.append(f"shfl.sync.{m}.b32 %rd|%p1, %ra, %rb, {c}, 0xffffffff;\n\tselp.b32 %rc, 1, 0, %p1;\n\tmov.b64 %qd, {{%rd, %rc}};")
    for o in ["add", "min", "max"]:
        for t in ["u32", "s32"]:
            op(f"redux.sync.{o}.{t}", t, t, extra=", 0xffffffff")
    for o in ["and", "or", "xor"]:
        op(f"redux.sync.{o}.b32", "b32", "b32", extra=", 0xffffffff")
    forms.append("and.b32 %ra, %ra, 3;\n\tmatch.any.sync.b32 %rd, %ra, 0xffffffff;\n\tcvt.u64.u32 %qd, %rd;")
    forms.append("mov.b32 {%ha, %hb}, %ra;\n\tmov.b32 %rd, {%hb, %ha};\n\tmov.b64 {%ra, %rb}, %qb;\n\tmov.b64 %qd, {%rb, %rd};")


def main():
    build()
    print(HEAD)
    for i, body in enumerate(forms):
        print(f""".visible .entry k{i}(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)
{{
	.reg .pred %p<3>;
	.reg .b16 %ha, %hb, %hc, %hd;
	.reg .b32 %ra, %rb, %rc, %rd, %rt;
	.reg .b64 %qa, %qb, %qc, %qd, %pa, %pb, %pc, %pd, %at;
	ld.param.u64 %pa, [pa];
	ld.param.u64 %pb, [pb];
	ld.param.u64 %pc, [pc];
	ld.param.u64 %pd, [pd];
	mov.u32 %rt, %tid.x;
	mul.wide.u32 %at, %rt, 8;
	add.s64 %pa, %pa, %at;
	add.s64 %pb, %pb, %at;
	add.s64 %pc, %pc, %at;
	add.s64 %pd, %pd, %at;
	ld.global.u64 %qa, [%pa];
	ld.global.u64 %qb, [%pb];
	ld.global.u64 %qc, [%pc];
	cvt.u32.u64 %ra, %qa;
	cvt.u32.u64 %rb, %qb;
	cvt.u32.u64 %rc, %qc;
	cvt.u16.u64 %ha, %qa;
	cvt.u16.u64 %hb, %qb;
	cvt.u16.u64 %hc, %qc;
	{body}
	st.global.u64 [%pd], %qd;
	ret;
}}""")


main()
