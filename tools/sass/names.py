"""Names: which file an instruction belongs to, and what a spelling table is called."""

FAMILIES = {
    'integer': 'Integer arithmetic, comparison, shift, select, permute',
    'logic_shift': 'Logic, shifts, bit fields',
    'float': 'Single precision',
    'half': 'Half precision pairs',
    'double': 'Double precision',
    'convert': 'Conversions between number formats',
    'predicate_move': 'Moves, predicates, votes, shuffles, special registers',
    'memory': 'Loads and stores: generic, global, shared, local, constant; caches and fences',
    'atomic': 'Atomics and reductions',
    'uniform': 'Uniform datapath',
    'control_flow': 'Control flow',
    'sync_barrier': 'Barriers and synchronisation',
    'texture_surface': 'Textures and surfaces',
    'tensor': 'Tensor cores: warp-level matrix instructions',
    'tensor_warpgroup': 'Tensor cores: warpgroup matrix instructions (sm_90)',
    'tensor_memory': 'Tensor cores: tensor memory instructions (sm_100 family)',
    'async_tma': 'Asynchronous copies, tensor memory accelerator, mbarriers',
    'misc': 'Everything else',
}

_MEMBERS = {
    'integer': 'IADD IADD3 IADD32I IMAD IMUL IMNMX IABS ISETP ISCADD ISET IDP IDP4A VIADD VIADDMNMX VIMNMX VIMNMX3 VABSDIFF VABSDIFF4 '
               'LEA I2IP VIADD2 VIMNMX2 VIADDMNMX2 IDE IADD2 VHMNMX VADD VSETP VSET VSHL VSHR VMAD VMNMX IADD3_64 ISAD SAD',
    'logic_shift': 'LOP3 LOP SHF SHL SHR BMSK BREV FLO POPC SGXT PRMT BFE BFI LOP32I',
    'float': 'FADD FADD2 FADD32I FFMA FFMA2 FFMA32I FMUL FMUL2 FMUL32I FMNMX FMNMX3 FSEL FSET FSETP FCHK MUFU FSWZADD FSWZ RRO FCMP FRND FHADD FHFMA FHADD2 FHFMA2 IPA',
    'half': 'HADD2 HADD2_32I HFMA2 HFMA2_32I HMUL2 HMUL2_32I HMNMX2 HSET2 HSETP2',
    'double': 'DADD DFMA DMUL DSETP DMNMX DSET',
    'convert': 'F2F F2FP F2I F2IP I2F I2FP I2I',
    'predicate_move': 'MOV MOV32I MOVM SEL P2R R2P PSETP PSET PLOP3 CSET CSETP S2R CS2R B2R R2B VOTE SHFL MATCH REDUX CREDUX ELECT QSPC SMOV MOV64IUR',
    'memory': 'LD LDC LDG LDL LDS ST STG STL STS LDSM STSM CCTL CCTLL CCTLT MEMBAR FENCE ERRBAR QSPC LDGMC PREFETCH CGAERRBAR '
              'LDGDEPBAR LDTRAM',
    'atomic': 'ATOM ATOMG ATOMS RED REDG REDAS STAS REDS',
    'uniform': 'ULDC LDCU UMOV UIADD3 UIMAD ULEA ULOP3 ULOP USHF UISETP USEL UPRMT UFLO UPOPC UBREV UBMSK USGXT UP2UR UR2UP R2UR S2UR CS2UR UPLOP3 '
               'UPSETP VOTEU UIMNMX UVIMNMX UF2I UFADD UFFMA UFHADD UFMUL UFSEL UFSETP UI2F UI2FP UCLEA ULOP32I UMOV32I USHL USHR UVIADD UIABS '
               'UF2F UF2FP UFMNMX UFRND UFSET UI2I UI2IP UMUFU UFCHK UIADD3_64 UF2IP UVIADDMNMX UVIMNMX3 UIADD2 UVABSDIFF UREDUX USHFL UFADD2 UIDP UFLO64 R2UR64 '
               'UISETP64 LDCUX UCS2UR UFHFMA USETP UIMNMX64',
    'control_flow': 'BRA BRX BRXU BREAK BSSY BSYNC BMOV CALL RET EXIT JMP JMX JMXU KILL LEPC RPCMOV WARPSYNC YIELD RTT NANOSLEEP BPT UBRA PREEXIT '
                    'ENDCOLLECTIVE WARPGROUP WARPGROUPSET',
    'sync_barrier': 'BAR DEPBAR UCGABAR_ARV UCGABAR_WAIT CGABAR_ARV CGABAR_WAIT ARRIVES ACQBULK ACQSHMINIT USETMAXREG SETMAXREG SETSMEMSIZE',
    'texture_surface': 'TEX TLD TLD4 TMML TXD TXQ SULD SUST SURED SUATOM SUQUERY FOOTPRINT TXA TTU TTUCCTL TTUCLOSE TTUGO TTULD TTUMACRO TTUOPEN TTUST LDT STT',
    'tensor': 'HMMA IMMA DMMA BMMA QMMA OMMA FMMA GENMETADATA SPMETADATA SCATTER GATHER MOVMT',
    'tensor_warpgroup': 'HGMMA IGMMA QGMMA BGMMA',
    'tensor_memory': 'UTCHMMA UTCQMMA UTCIMMA UTCOMMA UTCMXQMMA UTCBAR UTCCP UTCSHIFT UTCATOMSWS UTCLDSWS UTCSTSWS LDTM STTM UTCOMMA LDT STT LDTMX',
    'misc': 'NOP PMTRIG',
    'async_tma': 'LDGSTS SYNCS UBLKCP UBLKPF UBLKRED UTMALDG UTMASTG UTMAREDG UTMAPF UTMACCTL UTMACMDFLUSH USTGR UREDGR UMEMSETS '
                 'UGETNEXTWORKID UVIRTCOUNT UTMAREDG LDGSTS2',
}
FAMILY_OF = {m: f for f, ms in _MEMBERS.items() for m in ms.split()}

# A table is called after the first of these spellings it holds.
_NAMES = [
    ('round', '.RM .RP .RZ .RN .FLOOR .CEIL .TRUNC .ROUND'),
    ('ftz', '.FTZ'), ('fmz', '.FMZ'), ('sat', '.SAT'), ('relu', '.RELU'), ('ntz', '.NTZ'),
    ('bool', '.AND .OR .XOR'),
    ('cmp', '.LT .GE .EQ .NE .F .T .LTU .NUM .GT .LE'),
    ('scope', '.STRONG.SYS .STRONG.GPU .GPU .SYS .CTA .STRONG.SM .MMIO.SYS .STRONG .WEAK .CONSTANT'),
    ('evict', '.EF .EL .LU .NA .EU'), ('prefetch', '.LTC64B .LTC128B'),
    ('extended', '.E'),
    ('swizzle', '.X4 .X8 .X16 .H0_H0 .H1_H1 .F32'), ('half', '.H1 .H0 .H1_H0'), ('byte', '.B1 .B2 .B3'),
    ('size', '.64 .128 .U8 .S8 .U16 .S16 .32 .16 .8'),
    ('type', '.U32 .S32 .U64 .S64 .F16 .F32 .F64 .BF16 .TF32 .E4M3 .E5M2 .BF16_V2 .F16_V2 .F32.FTZ.RN .BF16x2 .U4 .S4'),
    ('op', '.ADD .MIN .MAX .INC .DEC .EXCH .CAS .POPC .MINMAX .COS .SIN .EX2 .LG2 .RCP .SQRT .ANY .ALL .IDX .BFLY'),
    ('wide', '.WIDE .HI .HILO'), ('x', '.X .EX'), ('dim', '.1D .2D .3D 1D 2D 3D .CUBE .ARRAY_2D .A1D .A2D'),
    ('lod', '.LZ .LB .LL .LC .LOD'), ('shape', '.16816 .1688 .884 .16832 .64x8x16'),
    ('special', 'SR_LANEID SR_TID.X SR_CLOCKLO'), ('gsb', 'gsb0'), ('bank', 'BAR'),
]
_BY_SPELLING = {}
for _n, _s in _NAMES:
    for _x in _s.split():
        _BY_SPELLING.setdefault(_x, _n)


def field_name(field):
    """A readable name for a spelling table."""
    texts = [t for _, t in sorted(field.table.items()) if t]
    for t in texts:
        if t in _BY_SPELLING:
            return _BY_SPELLING[t]
    for t in texts:
        first = '.' + t.split('.')[1] if t.startswith('.') and len(t) > 1 else t.split('.')[0]
        if first in _BY_SPELLING:
            return _BY_SPELLING[first]
    first = (texts or ['none'])[0].strip('.').lower()
    name = ''.join(c if c.isalnum() else '_' for c in first)
    return name if not name[:1].isdigit() else 'm' + name
